// What the next periods bring: totals that came, and a ribbon of those expected.

function drawNext() {
  byId("ahead").hidden = data.next_periods === null;
  if (data.next_periods) byId("ahead-cards").replaceChildren(totalsCard(data.next_periods));
}

function totalsCard({ axis, share, known, next }) {
  const came = known.map(([label, y], x) => ({ x, label, y, low: y, high: y }));
  const expected = next.map(([label, y, low, high], n) => ({ x: known.length + n, label, y, low, high }));
  const last = came.at(-1);
  const hidden = share < 1 ? `, from the ${roundPercent(share)} of cells that were fitted` : "";
  const rows = () => [
    ...came.map(({ label, y }) => [label, y, null, null, null]),
    ...expected.map(({ label, y, low, high }) => [label, null, y, low, high]),
  ];
  return card(`Totals by ${axis}`, `what came up to ${last.label} (marked)${hidden}, then what is expected`, { wide: true },
    lineChart(`Totals by ${axis}, and the next ones; the numbers are in the table that follows`, [...came, ...expected],
      { format: (value) => whole.format(Math.max(value, 0)), fromZero: true, band: true, mark: last.x }),
    numbersBehind(`Totals by ${axis}`, [axis, "came", "expected", "low", "high"], rows, (value) => whole.format(value)));
}
