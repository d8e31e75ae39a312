// Queues over time: what each held, stacked, against its quota; and who evicted whom. Panels share their axes, so that set-ups compare.

function timeAxis(picture, begin, end, px, left, right, bottom, height, width) {
  const ticks = timeTicks(begin, end, (width - left - right) / 90);
  for (const value of ticks.values) {
    picture.append(svg('line', { class: 'grid', x1: px(value), x2: px(value), y1: 8, y2: bottom }));
    picture.append(svg('text', { x: px(value), y: height - 4, 'text-anchor': 'middle' }, clock(value, ticks.step)));
  }
}

// A square of colour and a name for each, as for areas and bars.
function swatches(names) {
  return el('div', { class: 'legend' }, ...names.map((name, n) => {
    const square = svg('svg', { width: 14, height: 12, 'aria-hidden': 'true' }, svg('rect', { width: 14, height: 12, rx: 3, fill: colour(n) }));
    const label = el('span', {}, square);
    label.append(shorten(name, 60));
    label.title = name;
    return label;
  }));
}

function drawUsage(plot, panel, names, end, most) {
  const width = plot.clientWidth, left = 52, right = 12, top = 26, marks = panel.evictions.length ? 16 : 0;
  const height = clamp(width * 0.5, 190, 320), bottom = height - 22 - marks;
  const picture = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${panel.unit} held by queue over time, ${panel.title}` });
  plot.replaceChildren(picture);
  const px = (v) => left + (v / end) * (width - left - right), py = (v) => bottom - (v / most) * (bottom - top);
  timeAxis(picture, 0, end, px, left, right, bottom, height, width);
  for (const value of ticksOf(0, most, height / 60).values) {
    picture.append(svg('line', { class: 'grid', x1: left, x2: width - right, y1: py(value), y2: py(value) }));
    picture.append(svg('text', { x: left - 8, y: py(value) + 4, 'text-anchor': 'end' }, number(value, 6)));
  }
  picture.append(svg('text', { x: 8, y: 12 }, panel.unit));
  const columns = panel.wanted.length, at = (n) => (n / columns) * panel.end;
  const below = new Array(columns).fill(0);
  panel.queues.forEach((name, row) => {
    const ink = colour(names.indexOf(name)), up = [], down = [];
    panel.used[row].forEach((value, n) => {
      const low = py(below[n]), high = py(below[n] + value);
      up.push(`${px(at(n))},${high} ${px(at(n + 1))},${high}`);
      down.push(`${px(at(n + 1))},${low} ${px(at(n))},${low}`);
      below[n] += value;
    });
    picture.append(svg('polygon', { points: `${up.join(' ')} ${down.reverse().join(' ')}`, fill: ink, opacity: 0.82 }));
  });
  let sum = 0;
  panel.quota.forEach((value, row) => {
    sum += value;
    if (row < panel.quota.length - 1 && value) picture.append(svg('line', { x1: left, x2: px(panel.end), y1: py(sum), y2: py(sum), stroke: css('--ink'), 'stroke-width': 1.2, 'stroke-dasharray': '6 4' }));
  });
  picture.append(svg('line', { x1: left, x2: px(panel.end), y1: py(panel.size), y2: py(panel.size), stroke: css('--ink'), 'stroke-width': 1.6 }));
  const wanted = panel.wanted.map((value, n) => `${px(at(n + 0.5))},${py(Math.min(value, most))}`).join(' ');
  picture.append(svg('polyline', { points: wanted, fill: 'none', stroke: css('--quiet'), 'stroke-width': 1.4, 'stroke-dasharray': '1 3' }));
  for (const [when, row] of panel.evictions) picture.append(svg('rect', { x: px(when) - 1, y: bottom + 3, width: 2, height: marks - 5, fill: colour(names.indexOf(panel.queues[row])) }));
  picture.append(svg('line', { class: 'axis', x1: left, x2: width - right, y1: bottom, y2: bottom }));
  picture.addEventListener('pointerleave', hideTip);
  picture.addEventListener('pointermove', (event) => {
    const n = Math.floor(((event.clientX - picture.getBoundingClientRect().left - left) / (width - left - right)) * (end / panel.end) * columns);
    if (n < 0 || n >= columns) { hideTip(); return; }
    const lines = panel.queues.map((name, row) => `${shorten(name, 40)}: ${number(panel.used[row][n])} of ${number(panel.quota[row])}`).reverse();
    showTip([`at ${seconds(at(n + 0.5))}, ${panel.unit}`, ...lines, `wanted in all: ${number(panel.wanted[n])}, quota ${number(panel.size)}`].join('\n'), event.clientX, event.clientY);
  });
}

function panelsOf(plot, data, names, drawOne) {
  const box = el('div', { class: data.panels.length > 1 ? 'multiples wide' : '' });
  plot.replaceChildren(swatches(names), box);
  for (const panel of data.panels) {
    const cell = el('div'), inner = el('div');
    if (panel.title) cell.append(el('h4', {}, panel.title));
    cell.append(inner);
    box.append(cell);
    drawOne(inner, panel);
  }
}

charts.usage = (figure, data) => {
  const plot = figure.querySelector('.plot');
  const names = [...new Set(data.panels.flatMap((panel) => panel.queues))];
  const most = new Map();
  for (const panel of data.panels) most.set(panel.unit, Math.max(most.get(panel.unit) ?? 0, panel.size * 1.15, ...panel.wanted.map((value) => Math.min(value, panel.size * 1.5))));
  return () => panelsOf(plot, data, names, (inner, panel) => drawUsage(inner, panel, names, data.end, most.get(panel.unit)));
};

function drawEvictions(plot, panel, names, begin, end) {
  const width = plot.clientWidth, line = clamp(520 / panel.rows.length, 11, 20), left = clamp(width * 0.22, 70, 150), right = 12;
  const bottom = 14 + panel.rows.length * line, height = bottom + 22;
  const picture = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `evictions over time, ${panel.title}` });
  plot.replaceChildren(picture);
  const px = (v) => left + ((v - begin) / (end - begin || 1)) * (width - left - right), middle = (row) => 12 + (row + 0.5) * line;
  timeAxis(picture, begin, end, px, left, right, bottom, height, width);
  panel.rows.forEach((row, n) => {
    const ink = colour(names.indexOf(panel.kinds[row.kind])), text = svg('text', { x: left - 6, y: middle(n) + 4, 'text-anchor': 'end' }, shorten(row.name, Math.floor(left / 6.6)));
    picture.append(tipped(text, `${row.name}\n${panel.kinds[row.kind]}`));
    for (const [since, until] of row.spans) {
      const bar = svg('rect', { x: px(since), y: middle(n) - line * 0.34, width: Math.max(px(until) - px(since), 1), height: line * 0.68, rx: 2, fill: ink, opacity: 0.75 });
      picture.append(tipped(bar, `${row.name} (${panel.kinds[row.kind]})\nhas its place from ${seconds(since)} to ${seconds(until)}`));
    }
  });
  const dark = css('--ink');
  for (const move of panel.moves) {
    const x = px(move.at), y = middle(move.from), loser = panel.rows[move.from].name;
    const mark = svg('g', { stroke: dark, 'stroke-width': 1.1, fill: 'none' });
    if (move.to < 0) mark.append(svg('path', { d: `M${x - 3},${y - 3}l6,6m0,-6l-6,6` }));
    else {
      const to = middle(move.to), tail = to > y ? -4 : 4;
      mark.append(svg('path', { d: `M${x},${y}V${to}M${x - 3},${to + tail}L${x},${to}L${x + 3},${to + tail}`, opacity: 0.75 }), svg('circle', { cx: x, cy: y, r: 2.2, fill: dark }));
    }
    mark.append(svg('rect', { x: x - 5, y: y - line / 2, width: 10, height: line, fill: 'transparent', stroke: 'none' }));
    picture.append(tipped(mark, `at ${seconds(move.at)}: ${loser} was evicted (${move.reason})${move.to < 0 ? '' : `\nfor ${panel.rows[move.to].name}`}`));
  }
}

charts.evictions = (figure, data) => {
  const plot = figure.querySelector('.plot');
  const names = [...new Set(data.panels.flatMap((panel) => panel.kinds))];
  return () => panelsOf(plot, data, names, (inner, panel) => drawEvictions(inner, panel, names, data.begin, data.end));
};
