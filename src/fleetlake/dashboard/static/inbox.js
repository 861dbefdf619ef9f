// What needs a person: an inbox. Alike findings are one line; each can be dealt with.
import { el } from "./dom.js";
import { ago, instant, preference, setPreference } from "./format.js";
import { badge, deviceLink, firstRows, visible, wrapped } from "./table.js";

const REASONS = {
  on_backup: "on a backup", offline: "offline", outage: "outage", battery_to_change: "battery", data_cap: "data cap",
  flapping: "flapping", not_located: "not located", licence: "licence", data_gap: "data gap",
};
const SNOOZES = [["4", "4 hours"], ["24", "a day"], ["168", "a week"], ["720", "30 days"]];
const ALIKE = 3; // more findings than this of one reason and urgency are one line
const MEMBERS = 500; // of a line that opens
const FIRST = 60; // lines; a phone shows a quarter of them

const isReport = () => document.documentElement.dataset.page === "report";
const canWrite = () => !isReport() && document.documentElement.dataset.writable === "true";

// The rows as objects, and those that are alike together, in the order of the most urgent.
function groupsOf(data, state) {
  const rows = Array.from({ length: data.rows }, (_, row) => ({ row, get: (name) => data.values[name]?.[row] ?? null }));
  const at = new Map(rows.map((one) => [one.get("attention_id"), one]));
  const isPart = (one) => at.get(one.get("parent_id"))?.get("state") === one.get("state");
  const parts = Map.groupBy(rows.filter(isPart), (one) => one.get("parent_id"));
  const alone = rows.filter((one) => !isPart(one));
  const keyOf = (one) => (parts.has(one.get("attention_id")) ? one.get("attention_id") : `${one.get("severity_rank")} ${one.get("reason")}`);
  const groups = Map.groupBy(alone.filter((one) => one.get("state") === state), keyOf);
  return { groups: [...groups.values()], parts, counts: countOf(alone.map((one) => one.get("state"))) };
}

function countOf(states) {
  const counts = { open: 0, snoozed: 0, acknowledged: 0 };
  for (const state of states) counts[state] += 1;
  return counts;
}

const since = (one) => {
  const [began, due] = [one.get("since_at"), one.get("due_at")];
  const at = began ?? due;
  if (at === null) return "";
  return el("time", { datetime: new Date(at).toISOString(), title: instant(at, { seconds: true }) }, began === null ? `due ${instant(at)}` : ago(at));
};

// What was done about it, in words.
function dealtWith(one) {
  const parts = [];
  if (one.get("assigned_to")) parts.push(`→ ${visible(one.get("assigned_to"))}`);
  if (one.get("state") === "snoozed") parts.push(`snoozed until ${instant(one.get("snoozed_until_at"))}`);
  if (one.get("handled_by")) parts.push(`by ${visible(one.get("handled_by"))}, ${ago(one.get("handled_at"))}`);
  if (one.get("comment")) parts.push(`“${visible(one.get("comment")).slice(0, 200)}”${one.get("comments") > 1 ? ` and ${one.get("comments") - 1} before` : ""}`);
  return parts.length ? el("span", { class: "dealt faint" }, parts.join(" · ")) : null;
}

export function drawInbox(data, { state = {} } = {}) {
  state.chosen ??= new Set();
  state.shown ??= "open";
  const known = new Set(data.values.attention_id);
  for (const id of state.chosen) if (!known.has(id)) state.chosen.delete(id);
  const list = el("ol", { class: "inbox", "aria-label": "Findings" });
  const tabs = el("div", { class: "tabs", role: "group", "aria-label": "Which findings" });
  const tools = el("div", { class: "tools", hidden: true });
  const said = el("p", { class: "hint", role: "status" });
  const rest = el("p", { class: "more" });

  const box = (ids, label) => !canWrite() ? null : el("input", {
    type: "checkbox", "aria-label": `Choose ${label}`, checked: ids.every((id) => state.chosen.has(id)),
    onchange: (event) => {
      for (const id of ids) event.target.checked ? state.chosen.add(id) : state.chosen.delete(id);
      showChosen();
    },
  });

  function item(one, data) {
    const id = one.get("attention_id");
    const reason = REASONS[one.get("reason")] || one.get("reason");
    const who = one.get("router_id") === null ? el("span", {}, "the data") : deviceLink(data, one.row);
    return el("li", { class: `finding ${one.get("severity")}`, tabindex: "-1", "data-row": "", "data-ids": JSON.stringify([id]) },
      box([id], `${reason}, ${who.textContent}`), badge(one.get("severity")), el("span", { class: "reason" }, reason),
      el("span", { class: "who" }, who), el("span", { class: "what" }, wrapped(one.get("message")), dealtWith(one)), el("span", { class: "since faint" }, since(one)));
  }

  // A line that opens: an outage with its devices, or many alike findings.
  function fold(key, ids, first, members, words, label) {
    state.open ??= new Set();
    const items = () => [...members.slice(0, MEMBERS).map((one) => item(one, data)),
      ...(members.length > MEMBERS ? [el("li", { class: "hint" }, `${MEMBERS} of ${members.length} are shown: narrow the filters for the others.`)] : [])];
    const inside = el("ol", { class: "inbox members" }, state.open.has(key) ? items() : []);
    const details = el("details", { open: state.open.has(key), ontoggle: () => {
      if (details.open === state.open.has(key)) return;
      if (details.open) state.open.add(key);
      else state.open.delete(key);
      inside.replaceChildren(...(details.open ? items() : []));
    } }, el("summary", {}, words), inside);
    const reason = REASONS[first.get("reason")] || first.get("reason");
    return el("li", { class: `finding many ${first.get("severity")}`, tabindex: "-1", "data-row": "", "data-ids": JSON.stringify(ids) },
      box(ids, label), badge(first.get("severity")), el("span", { class: "reason" }, reason), details, el("span", { class: "since faint" }, since(first)));
  }

  function group(alike, parts) {
    const [first] = alike;
    const id = first.get("attention_id");
    if (parts.has(id)) return [fold(id, [id], first, parts.get(id), [el("strong", {}, sharedBy(first)), wrapped(first.get("message")), dealtWith(first)], first.get("message"))];
    if (alike.length <= ALIKE) return alike.map((one) => item(one, data));
    const ids = alike.map((one) => one.get("attention_id"));
    const devices = new Set(alike.map((one) => one.get("router_id"))).size;
    const words = [`${alike.length} ${devices < alike.length ? "findings" : "devices"}: `, el("span", { class: "faint" }, namesOf(alike))];
    return [fold(`${first.get("severity")} ${first.get("reason")}`, ids, first, alike, words, `all ${ids.length} with ${first.get("reason")}`)];
  }

  function fill() {
    const { groups, parts, counts } = groupsOf(data, state.shown);
    tabs.replaceChildren(...Object.entries(counts).map(([name, count]) => el("button", {
      type: "button", "aria-pressed": String(name === state.shown), onclick: () => {
        state.shown = name;
        state.chosen.clear();
        fill();
      },
    }, `${name[0].toUpperCase()}${name.slice(1)} ${count}`)));
    const count = state.lines || firstRows(FIRST);
    const shown = groups.slice(0, count).flatMap((alike) => group(alike, parts));
    list.replaceChildren(...shown);
    rest.replaceChildren();
    if (groups.length > count) rest.append(`${count} of ${groups.length} lines. `, el("button", { type: "button", onclick: () => {
      state.lines = count + 100;
      fill();
    } }, "Show more"));
    if (!shown.length) list.replaceChildren(el("li", { class: "hint" }, state.shown === "open" ? "Nothing needs a person now." : `Nothing is ${state.shown}.`));
    fillTools();
  }

  function showChosen() {
    for (const row of list.querySelectorAll("[data-ids]")) {
      const input = row.querySelector("input");
      if (input) input.checked = JSON.parse(row.dataset.ids).every((id) => state.chosen.has(id));
    }
    fillTools();
  }

  function fillTools() {
    tools.hidden = !state.chosen.size;
    if (tools.hidden) return;
    const name = el("input", { type: "text", maxlength: "80", value: preference("name") || "", placeholder: "Your name", "aria-label": "Your name", onchange: () => setPreference("name", name.value.trim()) });
    const comment = el("input", { type: "text", maxlength: "2000", placeholder: "Comment", "aria-label": "Comment" });
    const person = el("input", { type: "text", maxlength: "80", placeholder: "Assign to", "aria-label": "Assign to" });
    const hours = el("select", { "aria-label": "Snooze for" }, SNOOZES.map(([value, text]) => el("option", { value }, text)));
    const button = (text, step, more = () => ({})) => el("button", { type: "button", onclick: () => take([...state.chosen], step, { comment: comment.value || undefined, ...more() }) }, text);
    const buttons = state.shown === "open" ? [button("Acknowledge", "acknowledge"), el("span", { class: "pair" }, button("Snooze", "snooze", () => ({ hours: Number(hours.value) })), hours)] : [button("Open again", "reopen")];
    tools.replaceChildren(el("strong", {}, `${state.chosen.size} chosen`), ...buttons,
      el("span", { class: "pair" }, person, button("Assign", "assign", () => ({ assignee: person.value }))),
      el("span", { class: "pair" }, comment, button("Comment", "comment")), name);
  }

  async function take(ids, step, more = {}) {
    const by = preference("name") || "";
    if (!by) {
      said.textContent = "Type your name first: others see who did it.";
      tools.querySelector("[aria-label='Your name']")?.focus();
      return;
    }
    said.textContent = "Saving …";
    const answer = await fetch("/api/findings", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ finding_ids: ids, step, by, ...more }) }).catch(() => null);
    const told = answer?.ok ? null : await answer?.json().catch(() => null);
    if (answer?.ok) for (const id of ids) state.chosen.delete(id);
    said.textContent = answer?.ok ? "" : told?.what ? `${told.what} ${told.remedy || ""}` : "Nothing was saved: no answer from the dashboard’s server.";
  }

  // Keys of a list: a acknowledges, s snoozes for a day, x chooses.
  list.addEventListener("finding", (event) => {
    const row = event.target.closest("[data-ids]");
    if (!row || !canWrite()) return;
    const ids = JSON.parse(row.dataset.ids);
    const { key } = event.detail;
    if (key === "x" || !preference("name")) {
      for (const id of ids) state.chosen.add(id);
      showChosen();
      if (key !== "x") take(ids, "acknowledge"); // says that a name is missing
    } else if (key === "a") take(ids, "acknowledge");
    else if (key === "s") take(ids, "snooze", { hours: 24 });
  });

  fill();
  const more = data.is_cut ? el("p", { class: "more" }, "There are more: narrow the filters, or export them.") : null;
  if (isReport()) return [list, rest, more];
  const hint = canWrite() ? null : el("p", { class: "more" }, "Read-only here. To deal with findings, use ", el("code", {}, "fleetlake findings"), ", or start the dashboard with ", el("code", {}, "--write"), ".");
  return [tabs, tools, said, list, rest, more, hint];
}

function namesOf(alike) {
  const names = [...new Set(alike.map((one) => visible(one.get("router_name") ?? "").slice(0, 40)).filter(Boolean))];
  return names.slice(0, 3).join(", ") + (names.length > 3 ? " …" : "");
}

// The group or account whose devices failed together, if they have one in common.
function sharedBy(outage) {
  const name = visible(outage.get("group_name") ?? outage.get("account_name") ?? "").slice(0, 60);
  return name && outage.get("attention_id").startsWith("outage carrier") ? "" : name && `${name}: `;
}
