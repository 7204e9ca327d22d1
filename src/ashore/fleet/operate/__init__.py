"""What people ask of a server: verbs on jobs, and commands that run as operations."""
