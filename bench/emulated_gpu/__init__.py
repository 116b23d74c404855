"""An emulated GPU under a real vLLM: the engine, its scheduler and its caches are vLLM's own, the device is not.

Belongs here: what stands in for the device (how long a step takes, which token comes out) and how to put it under an
engine. Never: a workload, a measurement, or a change to what vLLM itself does.

``step_model``, ``tokens``, ``clock``, ``settings`` and ``ledger`` are plain Python; ``executor`` and ``platform`` are
loaded by vLLM; ``inprocess`` builds an engine in this process and ``plugin_path`` lets a server find the platform.
Nothing is imported here, so that naming one part does not load vLLM.
"""
