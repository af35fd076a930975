// Loop nests as boxes in boxes; those that were not there before are marked.

import { make } from "./make.js";

const label = (node) => (node.block ? `block ${node.block}` : `${node.loop} ${node.extent} ${node.way}`);

function labels(nodes, found = new Set()) {
  for (const node of nodes) {
    found.add(label(node));
    labels(node.inside, found);
  }
  return found;
}

function box(node, known) {
  const isNew = known && !known.has(label(node));
  const style = node.block ? "block" : `loop ${kindOf(node.way)}`;
  const item = make("li", { class: isNew ? `${style} new` : style }, ...content(node));
  if (node.inside.length) {
    item.append(make("ul", {}, ...node.inside.map((each) => box(each, known))));
  }
  return item;
}

function content(node) {
  if (!node.block) {
    const way = node.way === "serial" ? "" : node.way;
    return [make("b", {}, node.loop), " ", make("span", { class: "extent" }, node.extent), " ", make("i", {}, way)];
  }
  const reads = node.reads.length ? ` ← ${node.reads.join(", ")}` : "";
  const sum = node.reduces ? " (reduces)" : "";
  return [make("b", {}, node.block), ` ${node.writes.join(", ")}${reads}${sum}`];
}

const kindOf = (way) => (["serial", "parallel", "vectorized", "unrolled"].includes(way) ? way : "thread");

export function loopNests(before, after) {
  const column = (title, nodes, known) =>
    make("div", {}, make("h3", {}, title), make("ul", { class: "nest" }, ...nodes.map((each) => box(each, known))));
  return [column("before", before, null), column("after", after, labels(before))];
}
