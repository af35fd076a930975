// Two programs side by side: lines that a step changed are marked, long stretches between are folded.

import { make } from "./make.js";

const CONTEXT = 4; // lines around a change

function line(html, number, style = "") {
  const shown = make("span", { class: `code ${style}`, "data-line": number });
  shown.innerHTML = html || " "; // coloured and escaped by the server
  return shown;
}

// What stands far to the right in all lines is moved to the left, so that more of them is seen.
function outdent(...columns) {
  const texts = columns.flatMap((each) => [...each.querySelectorAll(".code")]).map((each) => each.firstChild);
  const isSpace = (text) => text.nodeType === Node.TEXT_NODE && text.data.trim() === "";
  const depths = texts.map((text) => (text.nodeType === Node.TEXT_NODE ? text.data.search(/\S|$/) : 0));
  const least = Math.min(...depths.filter((_, place) => !isSpace(texts[place]) || texts[place].nextSibling));
  texts.filter((text) => text.nodeType === Node.TEXT_NODE).forEach((text) => text.deleteData(0, least));
}

function fold(count) {
  return make("span", { class: "fold" }, count === 1 ? "1 line" : `${count} lines`);
}

function unchanged(lines, first, last, isStart, isEnd) {
  const kept = [isStart ? 0 : CONTEXT, isEnd ? 0 : CONTEXT];
  if (last - first <= kept[0] + kept[1] + 2) {
    return lines.slice(first, last).map((html, place) => line(html, first + place + 1));
  }
  const head = lines.slice(first, first + kept[0]).map((html, place) => line(html, first + place + 1));
  const tail = lines.slice(last - kept[1], last).map((html, place) => line(html, last - kept[1] + place + 1));
  return [...head, fold(last - first - kept[0] - kept[1]), ...tail];
}

export function changedLines(lines, edits) {
  const before = make("pre", { tabindex: 0, "aria-label": "program before the step" });
  const after = make("pre", { tabindex: 0, "aria-label": "program after the step" });
  if (!edits.length) {
    before.append(...lines.map((html, place) => line(html, place + 1)));
    return [make("div", { class: "whole" }, before)];
  }
  let place = 0;
  let shift = 0;
  edits.forEach(([start, end, fresh], number) => {
    stretch(place, start, number === 0, false);
    before.append(...lines.slice(start, end).map((html, n) => line(html, start + n + 1, "gone")));
    after.append(...fresh.map((html, n) => line(html, start + shift + n + 1, "fresh")));
    shift += fresh.length - (end - start);
    place = end;
  });
  stretch(place, lines.length, false, true);
  outdent(before, after);
  return [make("div", {}, make("h3", {}, "before"), before), make("div", {}, make("h3", {}, "after"), after)];

  function stretch(first, last, isStart, isEnd) {
    before.append(...unchanged(lines, first, last, isStart, isEnd));
    const moved = unchanged(lines, first, last, isStart, isEnd);
    moved.forEach((each) => {
      if (each.dataset.line) {
        each.dataset.line = Number(each.dataset.line) + shift;
      }
    });
    after.append(...moved);
  }
}
