"""Helpers of a process: background work, threads, memory shared with other processes, and its figures."""
