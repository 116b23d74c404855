"""How the project's environments are made: the machinery behind `bench/environments.py`.

The standard library alone: it runs on the system's Python before anything is installed.
"""
