class ExecutionContext:
    node_id: str
    prompt_id: str

def get_executing_context() -> ExecutionContext | None: ...
