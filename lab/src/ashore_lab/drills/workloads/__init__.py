"""Workloads: records whose identity and content a checker can compute again."""
