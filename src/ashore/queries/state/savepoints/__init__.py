"""Savepoints: copies of a checkpoint at one batch, and back.

What it is: their documents (`manifest`), where savepoints are (`store`), how files get from one
place to another (`transfer`), a savepoint taken (`save`) and restored (`restore`); for shared ones
the pool (`pool`), what they take from it (`share`), and what goes from it (`sweep`).
What it promises: a full savepoint refers to no file outside its directory: when the checkpoint and
every other savepoint are deleted, it restores. A shared one restores when the checkpoint is deleted
and every other savepoint was: the pool keeps what it needs. Either is there once its manifest is,
which is written last.

    <directory>/savepoint-118-3f9c0a12b4d5e6f7/      of batch 118; the rest is used once
        savepoint.json                               the manifest
        checkpoint/                                  files as Spark reads them, at their own paths
    <directory>/pool/                                files of shared savepoints: see `pool`
"""
