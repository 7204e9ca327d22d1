"""The lab: real servers, faults, drills that prove recovery, and a simulated cluster for tests."""
