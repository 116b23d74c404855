"""token_budget: how many tokens one engine step computes, and how arrivals are gathered for it.

Belongs here: the budget, the admission window, the long-prefill limit. Never: how many requests run (batch_resize).
"""

from policies.token_budget.policy import TokenBudget
from policies.token_budget.settings import TokenBudgetSettings
from policies.token_budget.state import TokenBudgetState

__all__ = ["TokenBudget", "TokenBudgetSettings", "TokenBudgetState"]
