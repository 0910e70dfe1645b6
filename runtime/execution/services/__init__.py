"""Services: what objects, systems built on the scheduler, and operators may ask of the engine."""
