// Where texts go on the map: each to the nearest free place, the largest component's first, so that
// no two cover each other.

const NUMBER_SIZE = 12;
const NAME_SIZE = 10;
const LINE = NAME_SIZE + 2;
const tall = (size) => 1.4 * size + 2; // of a line, its stroke with it
const LONGEST_LINE = 20; // characters

const apart = (a, b) =>
  a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;

// Steps away from a place, the nearest first.
const STEPS = [[0, 0]];
for (let radius = 5; radius < 160; radius += 5)
  for (let turn = 0; turn < 24; turn++) {
    const angle = (turn * Math.PI) / 12;
    STEPS.push([radius * Math.cos(angle), radius * Math.sin(angle)]);
  }

// The nearest box of a size around a place that is inside the map, covers none that are taken, and
// is allowed.
function freeBox([x, y], width, height, taken, allowed = () => true) {
  for (const [right, down] of STEPS) {
    const box = { x: x + right - width / 2, y: y + down - height / 2, width, height };
    const inside = box.x >= 1 && box.y >= 1 && box.x + width < SIZE && box.y + height < SIZE;
    if (inside && taken.every((other) => apart(box, other)) && allowed(box)) return box;
  }
  return null;
}

// How far a box is from the edge of a circle; negative if it covers part of it.
function gap(box, [x, y], radius) {
  const across = Math.max(box.x - x, 0, x - box.x - box.width);
  const along = Math.max(box.y - y, 0, y - box.y - box.height);
  return Math.hypot(across, along) - radius;
}

const FARTHEST = 16; // from a circle to its name

// Whether a box beside circles is clearly at that of one component.
function isBeside(box, number, places) {
  const gaps = components.map((each) => gap(box, places[each.number], radiusOf(each.share)));
  return gaps.every((one, other) => one >= 0 && one >= gaps[number] + (other === number ? 0 : 4)) && gaps[number] < FARTHEST;
}

// The lines of a name, or none if it has more than three.
function nameLines(name) {
  const lines = [];
  for (const word of name.split(" "))
    if (lines.length && lines.at(-1).length + word.length < LONGEST_LINE) lines[lines.length - 1] += ` ${word}`;
    else lines.push(word);
  return lines.length > 3 ? [] : lines;
}

// A box for each number and, where there is room near its circle, for the name with its lines:
// [{number, box, name: {box, lines}}]. The list has all names.
function textPlaces(places) {
  const taken = [];
  const keep = (box) => {
    if (box) taken.push(box);
    return box;
  };
  const found = bySize.map(({ number, name }) => ({
    number, box: keep(freeBox(places[number], textWidth(`${name}`, NUMBER_SIZE) + 4, tall(NUMBER_SIZE), taken)),
  }));
  for (const each of found) {
    const { called } = components[each.number], lines = nameLines(called);
    if (!each.box || K === 1 || !lines.length) continue;
    const width = endsOf(lines.map((line) => textWidth(line, NAME_SIZE)))[1] + 6;
    const box = keep(freeBox(places[each.number], width, (lines.length - 1) * LINE + tall(NAME_SIZE), taken,
      (free) => isBeside(free, each.number, places)));
    if (box) each.name = { box, lines };
  }
  return found;
}
