"""The choreography: steps one after another, the phases of a step side by side. Plain asyncio, the same on every cluster."""
