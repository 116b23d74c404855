"""Statistics of one engine core: what is counted while it runs, and what is looked at when somebody asks.

Here: one collector or measure per file, and `collection`, which switches them on and puts them into one document.
Never here: rates, quantiles over time, judgement; the daemon makes them out of two readings. docs/stats.md defines
every figure. Nothing is hooked before the first reading, and what is not known is None, never 0.
"""
