"""A sweep's results in the formats of other programs, and as one archive that is checked elsewhere.

To add a format: a module with `write(evaluated, folder, *, draws)`, and a line in
fgrpo_bench.report.exports.command.FORMATS.
"""
