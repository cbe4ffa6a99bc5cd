"""The Sort Benchmark's tools: gensort makes records, valsort checks that they are sorted."""

from exoshuffle.cloudsort.gensort import GensortResult, gensort
from exoshuffle.cloudsort.valsort import ValsortResult, valsort

__all__ = ["GensortResult", "ValsortResult", "gensort", "valsort"]
