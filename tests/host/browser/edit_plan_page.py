"""A graph with an agent, a Planner and Edit Plan on the canvas, and the text of its list of steps."""

from __future__ import annotations

PLANNED = """([replies, request]) => {
  app.graph.clear();
  const put = (type, x, y, values) => {
    const node = LiteGraph.createNode(type);
    app.graph.add(node);
    node.pos = [x, y];
    node.widgets?.forEach(widget => { if (widget.name in values) widget.value = values[widget.name]; });
    return node;
  };
  const agent = put('InterleaveTestAgent', 0, 0, {replies});
  const planner = put('InterleavePlanner', 460, 0, {request});
  const edit = put('InterleaveEditPlan', 920, 0, {});
  agent.connect(0, planner, planner.inputs.findIndex(input => input.name === 'agent'));
  planner.connect(0, edit, edit.inputs.findIndex(input => input.name === 'plan'));
}"""
TEXT = (
    "() => app.graph._nodes.find(node => node.type === 'InterleaveEditPlan').widgets.find(w => w.name "
    "=== 'edits').value"
)
SET_TEXT = """text => {
  const node = app.graph._nodes.find(node => node.type === 'InterleaveEditPlan');
  node.widgets.find(widget => widget.name === 'edits').value = text;
}"""
