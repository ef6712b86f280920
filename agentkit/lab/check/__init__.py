"""One module a lesson: its predictions, and checks whose messages teach. Each check returns a `Verdict`.

A lesson imports its own: `from agentkit.lab.check import reducers as check`. The answers stand here and not in the
notebooks, where they would be read before they are looked for.
"""
