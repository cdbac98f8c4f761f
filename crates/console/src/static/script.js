// Comforts only: everything works without this file.
"use strict";

// Times in the reader's own zone; today's without the day.
function localTimes(root) {
  const two = (n) => String(n).padStart(2, "0");
  const today = new Date().toDateString();
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (isNaN(at)) continue;
    const clock = two(at.getHours()) + ":" + two(at.getMinutes()) + ":" + two(at.getSeconds());
    const day = at.getFullYear() + "-" + two(at.getMonth() + 1) + "-" + two(at.getDate());
    time.textContent = at.toDateString() === today ? clock : day + " " + clock;
  }
}

// A box that picks all.
function pickAll(root) {
  for (const all of root.querySelectorAll("input[data-all]")) {
    all.hidden = false;
    all.addEventListener("change", () => {
      const form = all.closest("form");
      for (const one of form.querySelectorAll(`input[name="${all.dataset.all}"]`)) {
        one.checked = all.checked;
      }
    });
  }
}

// The list renews itself while nobody is busy with it. Where that fails, a notice says of when the
// list is, until it can be renewed again.
function live() {
  const list = document.querySelector("#list[data-live]");
  if (!list) return;
  const box = document.querySelector("[data-live-switch]");
  if (box) box.closest("label").hidden = false;
  const busy = () =>
    document.hidden ||
    (box && !box.checked) ||
    !getSelection().isCollapsed ||
    list.contains(document.activeElement) ||
    list.querySelector("details[open]");
  let shown = new Date();
  const say = (why) => {
    for (const notice of document.querySelectorAll("[data-stale]")) {
      notice.querySelector("time").dateTime = shown.toISOString();
      localTimes(notice);
      notice.hidden = notice.dataset.stale !== why;
    }
  };
  // Why the list could not be renewed; nothing if it was, or somebody became busy with it.
  const ask = async () => {
    const asked = new Date();
    try {
      const limits = { redirect: "manual", cache: "no-store", signal: AbortSignal.timeout(15000) };
      const answer = await fetch(location.href, limits);
      // The way to the sign-in.
      if (answer.type === "opaqueredirect") return "session";
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = answer.ok && page.getElementById("list");
      if (!fresh) return "node";
      if (!busy()) {
        list.replaceChildren(...fresh.childNodes);
        localTimes(list);
        shown = asked;
      }
      return "";
    } catch {
      return "node";
    }
  };
  const renew = async () => {
    if (!busy()) say(await ask());
    setTimeout(renew, 4000);
  };
  setTimeout(renew, 4000);
}

// Where the navigation is wider than the screen, the current part is in sight.
function showCurrent() {
  const current = document.querySelector(".top nav [aria-current]");
  if (!current) return;
  const nav = current.parentElement;
  const [one, all] = [current.getBoundingClientRect(), nav.getBoundingClientRect()];
  nav.scrollLeft += one.left - all.left - (all.width - one.width) / 2;
}

localTimes(document);
pickAll(document);
showCurrent();
live();
