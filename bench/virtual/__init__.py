"""The governor and a real vLLM scheduler in one process, on a clock that only moves when told to.

Belongs here: the closed loop on virtual time: minutes of a busy engine in seconds, the same at every run. Never: what a
run is to show (the tests and benches that make one say that).

::

    run = Simulation(EngineSettings(max_num_seqs=64), Poisson(rate=12.0).asks(), PoliciesSettings(), slos).run(300)

Real: vLLM's scheduler, block pool and prefix cache, the plugin and its operations, the daemon's estimator, policies and
guards. Played: the GPU (bench/emulated_gpu), the API process's door, HTTP between them.
"""

from bench.virtual.simulation import Simulation
from bench.virtual.timeline import Served, Tick, Timeline
from bench.virtual.workload import Ask, Lengths, Poisson, at_once, together

__all__ = ["Ask", "Lengths", "Poisson", "Served", "Simulation", "Tick", "Timeline", "at_once", "together"]
