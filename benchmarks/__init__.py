"""Figures, each beside a named peer or limit that was measured in the same run."""
