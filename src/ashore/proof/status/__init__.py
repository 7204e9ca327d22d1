"""The state of a job, its topics, its queries and its records, from its logs and its topics."""
