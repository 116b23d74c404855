"""The seeds' hardware table by NVML's names."""

import pytest

from policies.profiles import A100_80G, H100_PCIE_80G, RTX_4090, Profile, of_engine, of_gpu


@pytest.mark.parametrize(
    ("name", "profile"),
    [
        ("NVIDIA A100-SXM4-80GB", A100_80G),
        ("NVIDIA A100 80GB PCIe", A100_80G),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", A100_80G),
        ("NVIDIA A100-SXM4-40GB", None),
        ("NVIDIA GeForce RTX 4090", RTX_4090),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA H100 PCIe", H100_PCIE_80G),
        ("NVIDIA H100 80GB HBM3", None),
        ("NVIDIA H200", None),
    ],
)
def test_a_gpu_is_found_by_the_name_that_nvml_gives_it(name: str, profile: Profile | None) -> None:
    assert of_gpu(name) is profile


def test_the_numbers_are_the_tables() -> None:
    assert (A100_80G.max_num_seqs, RTX_4090.max_num_seqs, H100_PCIE_80G.max_num_seqs) == (64, 32, 128)
    golden = A100_80G.golden
    assert golden is not None
    assert (golden.max_num_seqs, golden.hot_cache_ratio, golden.growth_factor, golden.prefill_chunk_tokens) == (
        48, 0.35, 1.6, 512,
    )  # fmt: skip


def test_of_several_gpus_the_smallest_counts_and_an_unknown_one_leaves_the_envelope() -> None:
    assert of_engine(["NVIDIA H100 PCIe", "NVIDIA GeForce RTX 4090"]) is RTX_4090
    assert of_engine(["NVIDIA H100 PCIe", "Somebody's GPU"]) is None
    assert of_engine([]) is None
