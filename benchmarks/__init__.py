"""Exoshuffle beside its peers: same files, same output, same run. See README.md in this folder."""
