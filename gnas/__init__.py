"""Graph neural architecture search from message passing."""
