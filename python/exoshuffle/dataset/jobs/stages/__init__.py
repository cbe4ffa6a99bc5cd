"""Pipelines of stages: users' functions and classes whose tasks have needs of their own, run under a policy."""
