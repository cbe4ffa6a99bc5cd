"""Batches for training: every epoch in an order of its own, which any number of trainers can take up again."""

from exoshuffle.training.loader import DataLoader
from exoshuffle.training.mix import mix

__all__ = ["DataLoader", "mix"]
