"""Workloads, emulated hardware and comparisons. Nothing the daemon or the plugin needs at run time ever lives here."""
