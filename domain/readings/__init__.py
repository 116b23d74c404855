"""What the sensors return, one file per source, frozen. Unknown is None, never 0.

Belongs here: values as a source gave them, in base units. Never: rates, windows or judgements (the estimator's work).
"""
