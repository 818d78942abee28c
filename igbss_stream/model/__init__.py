"""The IGBSS model: a log-linear model on a poset of mixing, source and received states.

Nothing in here knows of files, streams or units. Read `poset` (what lies below what), `loglinear`
(what theta means: p, eta, KL, Fisher information) and `solve` (how theta is found).
"""
