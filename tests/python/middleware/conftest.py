"""Hypothesis without a deadline: the first call of a test may import a library or compile a pattern."""

from hypothesis import settings

settings.register_profile("middleware", deadline=None, max_examples=60)
settings.load_profile("middleware")
