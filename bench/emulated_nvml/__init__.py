"""A scripted NVML: the real nvidia-ml-py on machines without a GPU.

Belongs here: the library's source and its building, script files, cards' answers. Never: what the daemon makes of them.
"""
