"""Records in, files out: decoders of values, encoders of tables, and the schema language.

Importing the schema language (`ddl`) loads no Arrow: take each name from the module that has it.
"""
