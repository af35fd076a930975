// The schedule explorer: steps, the program and its loops before and after each, decisions to change.

import { loopNests } from "./loops.js";
import { make } from "./make.js";
import { changedLines } from "./programs.js";

const root = document.getElementById("explorer");
const status = document.getElementById("answer");
const list = document.getElementById("steps");
const decisions = {}; // by the number of a step: what was chosen instead of what was recorded

let answer; // of the last replay
let programs; // the lines before the first step and after each
let loops; // the same for loop nests
let current = 0;
let recordedEstimate = "";

async function replay() {
  status.textContent = "Replaying the trace ...";
  status.className = "";
  let said;
  try {
    const reply = await fetch("/api/replay", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ record: root.dataset.record, decisions }),
    });
    said = await reply.json();
  } catch {
    said = { error: "the server does not answer" };
  }
  if (said.error) {
    complain(said.error);
    return;
  }
  takeIn(said);
}

function takeIn(said) {
  answer = said;
  const { begin, steps } = said.replayed;
  programs = [begin];
  loops = [said.replayed.loops];
  for (const step of steps) {
    programs.push(step.change ? edited(programs.at(-1), step.change.edits) : programs.at(-1));
    loops.push(step.change ? step.change.loops : loops.at(-1));
  }
  showSteps();
  tellOutcome();
  select(Math.max(0, Math.min(current || firstNewLoops(), steps.length - 1)));
}

// Steps that only look something up, or annotate, are not the ones to begin with.
function firstNewLoops() {
  const shapes = loops.map((nest) => JSON.stringify(nest));
  return shapes.findIndex((shape, place) => shape !== shapes[place + 1]);
}

function edited(lines, edits) {
  const result = [];
  let place = 0;
  for (const [start, end, fresh] of edits) {
    result.push(...lines.slice(place, start), ...fresh);
    place = end;
  }
  return result.concat(lines.slice(place));
}

// --- what became of it ---------------------------------------------------------------------------

function tellOutcome() {
  const { replayed, refusal, estimate } = answer;
  const isChanged = Object.keys(decisions).length > 0;
  if (!isChanged) {
    recordedEstimate = estimate;
  }
  if (replayed.error || refusal) {
    complain(replayed.error || refusal);
  } else {
    const before = isChanged && recordedEstimate ? `, as recorded ${recordedEstimate}` : "";
    const guess = estimate ? `; estimated without measuring: ${estimate}${before}` : "";
    status.textContent = `${isChanged ? "Legal with your decisions" : "Replayed as recorded"}${guess}`;
    status.className = isChanged ? "fine" : "";
  }
  status.append(...repairs());
  if (isChanged) {
    const reset = make("button", { type: "button" }, "As recorded");
    reset.addEventListener("click", () => {
      Object.keys(decisions).forEach((place) => delete decisions[place]);
      replay();
    });
    status.append(" ", reset);
  }
}

function repairs() {
  return Object.entries(decisions).flatMap(([place, asked]) => {
    const choice = answer.replayed.steps[place]?.choice;
    const isTaken = !choice || JSON.stringify(choice.value) === JSON.stringify(asked);
    const said = `; step ${Number(place) + 1} made ${JSON.stringify(choice?.value)} of ${JSON.stringify(asked)}`;
    return isTaken ? [] : [said];
  });
}

function complain(text) {
  status.textContent = text;
  status.className = "complaint";
}

// --- steps ---------------------------------------------------------------------------------------

function showSteps() {
  const items = answer.replayed.steps.map((step, place) => {
    const button = make("button", { type: "button", class: step.change ? "step" : "step quiet" }, step.text);
    button.addEventListener("click", () => select(place));
    const item = make("li", { id: `step-${place + 1}` }, button);
    if (step.choice) {
      item.append(controls(step.choice, place));
    }
    return item;
  });
  if (answer.replayed.failed) {
    const text = make("p", { class: "step failed" }, answer.replayed.failed);
    items.push(make("li", {}, text, make("p", { class: "complaint" }, answer.replayed.error)));
  }
  const focused = focusedDecision();
  list.replaceChildren(...items);
  if (focused) {
    list.children[focused.place]?.querySelector(focused.what)?.focus();
  }
}

// The keyboard stays at a decision that was just changed.
function focusedDecision() {
  const active = document.activeElement;
  const place = [...list.children].findIndex((item) => item.contains(active));
  return place >= 0 && active.closest(".decision") ? { place, what: `.decision ${active.tagName}` } : null;
}

function controls(choice, place) {
  const decide = (value) => {
    decisions[place] = value;
    current = place;
    replay();
  };
  const label = `Decision of step ${place + 1}`;
  if (choice.parts) {
    return factors(choice, label, decide);
  }
  const options = (choice.options ?? []).map(([value, name]) =>
    make("option", { value, ...(value === choice.value ? { selected: "" } : {}) }, name),
  );
  const select = make("select", { "aria-label": label }, ...options);
  select.addEventListener("change", () => decide(Number(select.value)));
  return make("div", { class: "decision" }, select);
}

function factors(choice, label, decide) {
  const fields = choice.value.map((value, place) =>
    make("input", { type: "number", value, min: 1, "aria-label": `${label}, factor ${place + 1}` }),
  );
  const form = make("form", { class: "decision" });
  fields.forEach((field, place) => form.append(place ? " × " : "", field));
  form.append(` = ${choice.extent} `, make("button", {}, "Replay"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    decide(fields.map((field) => Number(field.value)));
  });
  return form;
}

function select(place) {
  if (place < 0 || place >= list.children.length) {
    return;
  }
  current = place;
  list.querySelector("[aria-current]")?.removeAttribute("aria-current");
  const button = list.children[place].querySelector("button.step");
  if (!button) {
    return;
  }
  button.setAttribute("aria-current", "step");
  reveal(list.children[place]);
  show();
}

// Scrolls the list, not the page.
function reveal(item) {
  const top = item.offsetTop - list.offsetTop;
  const last = top + item.offsetHeight - list.clientHeight;
  list.scrollTop = Math.max(last, Math.min(top, list.scrollTop));
}

list.addEventListener("keydown", (event) => {
  const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (way && event.target.matches("button.step")) {
    event.preventDefault();
    select(current + way);
    list.children[current].querySelector("button.step")?.focus();
  }
});

// --- the program and its loops -------------------------------------------------------------------

function show() {
  const step = answer.replayed.steps[current];
  document.getElementById("step-title").textContent = step
    ? `Step ${current + 1} of ${answer.replayed.steps.length}${step.change ? "" : ": the program stays as it is"}`
    : "The program as it was given";
  const edits = step?.change?.edits ?? [];
  document.getElementById("loops").replaceChildren(...loopNests(loops[current], loops[current + 1] ?? loops[0]));
  document.getElementById("programs").replaceChildren(...changedLines(programs[current], edits));
}

replay();
