"""Types that every layer shares: readings, views, proposals, decisions, errors.

Belongs here: frozen values and arithmetic on them. Never: input or output, a clock, a library outside the standard one.
"""
