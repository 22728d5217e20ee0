"""Fewer examples: each goes through a whole middleware."""

from hypothesis import settings

settings.register_profile("middleware", settings.get_profile("magicbyte"), max_examples=60)
settings.load_profile("middleware")
