"""What the plugin can do about vLLM's prefix cache: keep hot blocks longer, drop cold ones sooner, purge on request.

Here: mechanisms, plain classes on live vLLM objects, time always passed in. Never here: a knob, a call of the RPC.

`tiers` orders the free blocks, `share` decides how many of them are worth keeping, `hot` says which are hot and holds
the settings, `reclaim` and `purge` drop cached blocks, `walk` finds those, `pools` looks at what there is.
Nothing is imported here: a server that never asks for any of it pays nothing.
"""
