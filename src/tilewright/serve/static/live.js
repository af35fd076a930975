// Takes in what is new: parts of the page that changed are exchanged, all others stay as they are.

const stateText = () => document.getElementById("state");
let isBusy = false;
let isStale = false;

async function refresh() {
  if (isBusy) {
    isStale = true;
    return;
  }
  isBusy = true;
  try {
    const answer = await fetch(location.href);
    if (answer.ok) {
      takeIn(new DOMParser().parseFromString(await answer.text(), "text/html"));
    }
  } catch {
    showLost();
  } finally {
    isBusy = false;
  }
  if (isStale) {
    isStale = false;
    refresh();
  }
}

function takeIn(page) {
  for (const fresh of page.querySelectorAll("[data-live]")) {
    const shown = document.getElementById(fresh.id);
    if (shown && !shown.isEqualNode(fresh)) {
      keepingPlace(shown, fresh);
    }
  }
  document.body.dataset.version = page.body.dataset.version;
}

// Details that are open stay open, and the keyboard stays where it was.
function keepingPlace(shown, fresh) {
  const open = [...shown.querySelectorAll("details")].map((each) => each.open);
  fresh.querySelectorAll("details").forEach((each, place) => {
    each.open = Boolean(open[place]);
  });
  const focused = shown.contains(document.activeElement) && document.activeElement.getAttribute("href");
  shown.className = fresh.className;
  shown.replaceChildren(...fresh.childNodes);
  if (focused) {
    shown.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  }
}

function showLost() {
  const state = stateText();
  if (state) {
    state.textContent = "the server does not answer; trying again";
    state.className = "state lost";
  }
}

if (document.getElementById("state")) {
  const changes = new EventSource("/api/changes");
  changes.addEventListener("changed", (event) => {
    if (event.data !== document.body.dataset.version || stateText().classList.contains("lost")) {
      refresh();
    }
  });
  changes.addEventListener("error", showLost);
}
