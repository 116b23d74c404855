"""The guards' view of the cap beside the token budget, and the real plugin's: what is let through is not refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("vllm")

from vllm_governor_engine.errors import GovernorError

from bench.emulated_gpu.inprocess import EngineSettings
from bench.virtual import Simulation
from domain.decision import Mode, Proposal, Reason
from domain.knobs import MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS
from domain.snapshot import Source
from domain.view import View
from policies.guards import GuardSettings, GuardState, Rules, rule

RULES = Rules(Mode.AUTO, 1.0, GuardSettings(warm_up_s=0.0))
FRESH = {Source.METRICS: 0.0, Source.RUNTIME: 0.0}


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    made = Simulation(EngineSettings(max_num_seqs=256, max_num_batched_tokens=1024), (), None)
    yield made
    made.close()


def test_a_raise_that_the_engine_would_refuse_with_all_beside_it_is_cut_to_what_it_takes(
    simulation: Simulation,
) -> None:
    plugin = simulation.plugin
    start = {MAX_NUM_SEQS: 96.0, MAX_NUM_BATCHED_TOKENS: 512.0}
    wanted = {MAX_NUM_SEQS: 184.0, MAX_NUM_BATCHED_TOKENS: 128.0}
    with pytest.raises(GovernorError, match="need that many"):
        plugin.set(plugin.set(plugin.renew(), start), wanted)
    runtime = plugin.renew()
    proposals = [Proposal("p", name, value, Reason.HOLD_STEADY, "because") for name, value in wanted.items()]
    seen = View(10.0, runtime=runtime, ages_s=FRESH)
    _, rulings = rule(GuardState(runtime.boot_id, met_s=0.0), seen, proposals, RULES)
    asked = {one.proposal.knob: one.requested for one in rulings if one.requested is not None}
    now = plugin.set(runtime, asked)
    assert {name: one.value for name in wanted if (one := now.knob(name))} == {
        MAX_NUM_SEQS: 128,
        MAX_NUM_BATCHED_TOKENS: 128,
    }
