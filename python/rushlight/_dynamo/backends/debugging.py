"""What `_dynamo.explain` would return."""

from rushlight import _absent

globals().update(_absent.refused({"ExplainOutput": "functions run as they are: no graph is made"}))
