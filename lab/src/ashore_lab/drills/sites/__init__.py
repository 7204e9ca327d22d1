"""Where drills are played: a topic, a lake and the processes of a job; in memory or real."""
