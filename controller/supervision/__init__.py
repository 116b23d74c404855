"""What starts the daemon is kept told: that it is ready, that it lives, what it is about.

Belongs here: systemd's notification protocol (sd_notify(3)), when what is told, the units that ship with the
daemon. Never: putting the units on a machine (controller/cli/install.py), what a tick does.
"""
