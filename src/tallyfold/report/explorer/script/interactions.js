// Combinations of labels that are counted more often than their components say.

function drawInteractions() {
  const sets = data.interactions.filter((set) => set.rows.length);
  byId("interactions").hidden = sets.length === 0;
  byId("interactions-cards").replaceChildren(...sets.map(interactionCard));
}

function interactionCard(set) {
  const rows = set.rows.map((row) => {
    const [times, low, high] = row.slice(-3);
    const range = element("span", { class: "note" }, `${digits(low, 2)}–${digits(high, 2)}`);
    const multiplier = element("span", {}, `× ${digits(times, 2)} `, range);
    return [...set.axes.map((name, n) => entityLink(name, row[n])), multiplier];
  });
  const title = set.axes.join(" with ");
  return card(title, `${plural("combination", set.seen)} seen`,
    { tools: csvButton(title, [...set.axes, "multiplier", "low", "high"], () => set.rows) },
    table(title, [...set.axes, "multiplier"], rows, { class: "plain pairs" }));
}
