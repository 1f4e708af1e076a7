// An entity: the components its rate comes from, and what goes with it on the other axes.

function chooseEntity(axis, row) {
  change({ entity: { axis, row } });
  say(`${axis.name} ${axis.labels[row]}: its components, and what goes with it.`);
  byId("detail-title").focus();
}

// A label that leads to its entity, if that is on the page.
function entityLink(name, label) {
  const axis = axes.find((each) => each.name === name);
  const row = axis ? axis.labels.indexOf(label) : -1;
  return row < 0 ? labelNode(label) : labelButton(label, () => chooseEntity(axis, row));
}

function drawEntity() {
  const { axis, row } = state.entity;
  const profile = entityProfile(axis, row);
  byId("detail-title").replaceChildren(labelNode(axis.labels[row]));
  byId("detail-lead").textContent = entityLead(axis, row);
  const order = components.map((c) => c.number).sort((a, b) => profile.mean[b] - profile.mean[a]);
  const barOf = (number) => ({
    label: `Component ${fullTitleOf(components[number])}`, mean: profile.mean[number], low: profile.low[number], high: profile.high[number],
    overall: K === 1 ? null : components[number].share, choose: () => chooseComponent(number),
  });
  const file = `${axis.name} ${axis.labels[row]} components`;
  const own = barsCard("components", "where its rate comes from", order, barOf, { certain: axis.certain, file });
  const others = axes.filter((other) => other !== axis).map((other) =>
    axisCard(other, companionShares(profile, other), true));
  byId("detail").replaceChildren(own, ...others);
}

function entityLead(axis, row) {
  const counted = axis.counted ? `; a count of ${whole.format(axis.counted[row])} in the training data` : "";
  return `${axis.name}, ${percent(axis.overall[row])} of the total rate${counted}.`;
}
