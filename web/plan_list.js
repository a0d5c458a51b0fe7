// The list of steps in Edit Plan: shows the edits as a list or as text.

import { connectedCast, onCastChanged } from "./connected_cast.js";
import { redraw, zoom } from "./host.js";
import { onRunChanged, runAfter } from "./live/shown_runs.js";
import { castTable } from "./plan_cast.js";
import { PlanEdits } from "./plan_edits.js";
import { area, button, findingLines, make, note } from "./plan_elements.js";
import { stepRow } from "./plan_row.js";
import { heard, say } from "./words.js";

const VIEW = "interleave_view";
const MIN_HEIGHT = 220;
const BAR_HEIGHT = 90;

/** The list over one node's `edits` widget. */
export class PlanList {
  constructor(node, widget) {
    this.node = node;
    this.element = make("div", "itp-plan");
    this.element.addEventListener("wheel", (event) => this.scroll(event), { passive: false });
    this.rows = [];
    this.edits = new PlanEdits(widget, () => this.show(), () => this.update(), () => this.otherCast());
    this.widget = node.addDOMWidget("steps", "interleave_plan", this.element, {
      serialize: false,
      hideOnZoom: true,
      getMinHeight: () => (this.isList ? MIN_HEIGHT : BAR_HEIGHT),
      getMaxHeight: () => (this.isList ? undefined : BAR_HEIGHT)
    });
    this.widget.serialize = false;
    const ends = [onRunChanged(() => this.updateSoon()), onCastChanged(() => this.castChanged())];
    this.dispose = () => ends.forEach((end) => end());
    this.show();
  }

  castChanged() {
    const cast = JSON.stringify(this.otherCast());
    if (cast === this.castRead) return;
    this.castRead = cast;
    this.updateSoon();
    this.edits.castChanged();
  }

  /** The run has changed: update images and states of the rows with the next frame. */
  updateSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = undefined;
      this.update();
    });
  }

  update() {
    const shown = runAfter(this.node);
    const style = this.edits.style || this.edits.display.planned_style || "";
    const { findings, members, casts } = this.edits;
    for (const row of this.rows) row.update(shown, style, findings, members, casts.get(row.step));
    this.showCast(members);
    this.findings?.replaceChildren(...findingLines(findings, null));
  }

  otherCast() {
    const { cast, planned_cast: planned } = this.edits.display;
    return connectedCast(this.node, cast) ?? planned ?? null;
  }

  /** Show the table of the cast, unless it is shown already. */
  showCast(members) {
    const state = JSON.stringify(members);
    if (!this.cast || this.cast.state === state) return;
    const element = castTable(members);
    this.cast.element.replaceWith(element);
    this.cast = { element, state };
  }

  get view() {
    return this.node.properties?.[VIEW] === "text" ? "text" : "list";
  }

  get isList() {
    return this.view === "list" && !this.edits.fault;
  }

  switchView() {
    this.node.properties[VIEW] = this.view === "list" ? "text" : "list";
    this.show();
    // The other form is known only for a parsed text.
    this.edits.read();
  }

  scroll(event) {
    const list = this.element.querySelector(".itp-list");
    const scrolls = list && list.scrollHeight > list.clientHeight && list.contains(event.target);
    if (scrolls && !event.ctrlKey) event.stopPropagation();
    else zoom(event);
  }

  show() {
    this.hideText(this.isList);
    const { scrollTop = 0 } = this.element.querySelector(".itp-list") ?? {};
    this.element.replaceChildren(this.bar(), ...this.notes(), ...(this.isList ? [this.list()] : []));
    if (this.isList) this.element.lastChild.scrollTop = scrollTop;
    redraw();
  }

  hideText(isHidden) {
    const { widget } = this.edits;
    if (widget.hidden === isHidden) return;
    widget.hidden = isHidden;
    widget.options.hidden = isHidden;
    this.edits.touch();
  }

  bar() {
    const bar = make("div", "itp-bar");
    const inList = this.view === "list";
    bar.append(...(inList ? this.listButtons() : this.textButtons()), make("div", "itp-space"));
    const view = inList
      ? [say("Edit as text"), say("Show the plan as text")]
      : [say("Edit as list"), say("Show the plan as a list")];
    bar.append(button(...view, () => this.switchView()));
    return bar;
  }

  listButtons() {
    const { fault, text, display } = this.edits;
    const help = display.planned
      ? say("Discard the edits and use the planner's latest plan; locked steps stay")
      : say("Queue the graph once to get the planner's plan");
    return [
      button(say("Add step"), say("Add a step at the end"), () => this.add(), Boolean(fault)),
      button(say("Planner's plan"), help, () => this.edits.takePlanned(), !display.planned || !text.trim())
    ];
  }

  textButtons() {
    const { fault, forms, isJson } = this.edits;
    const name = isJson ? say("As outline") : say("As JSON");
    const off = Boolean(fault) || !forms?.json_text;
    return [button(name, say("Convert the text to the other form"), () => this.edits.switchForm(), off)];
  }

  add() {
    this.edits.add();
    this.element.querySelector(".itp-step:last-child textarea")?.focus();
  }

  notes() {
    const { fault, display, undo } = this.edits;
    const notes = [];
    if (fault) notes.push(note(fault, "itp-note itp-fault"));
    if (display.isNews) {
      const help = say("Load the new steps into the list");
      const show = button(say("Show new steps"), help, () => this.edits.takeResult());
      notes.push(note(heard(display.note), "itp-note", ...(display.stale && display.result ? [show] : [])));
    }
    if (undo) {
      const back = button(say("Undo"), say("Undo this change"), () => this.edits.takeBack());
      notes.push(note(undo.change, "itp-note itp-undo", back));
    }
    return notes;
  }

  list() {
    const list = make("div", "itp-list");
    const { steps } = this.edits;
    if (!steps.length) {
      const hint = this.isPlanLinked()
        ? say("Queue the graph to see the planner's plan here, or add steps of your own.")
        : say("Add steps to write a plan by hand, or connect a Planner.");
      list.append(make("div", "itp-hint", hint));
    }
    this.findings = make("div", "itp-findings");
    this.cast = { element: make("div"), state: "" };
    list.append(this.cast.element);
    if (steps.length) list.append(this.style(), this.findings);
    this.rows = steps.map((step, index) => this.row(step, index));
    list.append(...this.rows.map((row) => row.element));
    this.update();
    return list;
  }

  style() {
    const { edits } = this;
    const own = edits.display.planned_style;
    const box = area(edits.style, own || say("Style, character or LoRA trigger, put before every prompt"), (event) => {
      edits.style = event.target.value;
      this.edited();
    });
    box.classList.add("itp-style");
    box.title = say("Put before every prompt, for the image model and the critic.");
    return box;
  }

  isPlanLinked() {
    return this.node.inputs?.some((input) => input.name === "plan" && input.link != null);
  }

  row(step, index) {
    const { steps } = this.edits;
    const place = { isFirst: index === 0, isLast: index === steps.length - 1, earlier: steps.slice(0, index) };
    return stepRow(step, place, {
      edited: () => this.edited(),
      relocked: () => this.show(),
      move: (by) => this.edits.move(step, by),
      remove: () => this.edits.remove(step)
    });
  }

  /** Text was typed: the edited row is not rebuilt. */
  edited() {
    this.edits.undo = null;
    this.element.querySelector(".itp-undo")?.remove();
    this.edits.write();
    this.update();
    redraw();
  }
}
