// Lines over a parameter with a band around each: axes in round steps, a marker and a dash of its own for every line.

function scaleOf(values, labels, wanted) {
  const low = Math.min(...values), high = Math.max(...values);
  const log = !labels && low > 0 && (wanted ?? high / low >= 200);
  const f = log ? Math.log : (v) => v;
  const span = f(high) - f(low) || 1, room = labels ? 0.5 : 0;
  return { log, at: (v) => (f(v) - f(low) + room) / (span + 2 * room) };
}

function drawLines(plot, panel, x, y, names, hidden, plain) {
  const width = plot.clientWidth, height = clamp(width * 0.5, 200, 360), left = y.time ? 64 : 52, right = 18, top = panel.y ? 10 : 30, bottom = 40;
  const series = panel.series.filter((one) => !hidden.has(one.name));
  const points = series.flatMap((one) => one.points);
  const picture = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${panel.y || y.label} over ${x.label}${panel.title ? `, ${panel.title}` : ''}` });
  plot.replaceChildren(picture);
  const all = panel.series.flatMap((one) => one.points);
  if (!all.length) {
    picture.append(svg('text', { x: width / 2, y: height / 2, 'text-anchor': 'middle' }, 'nothing completed here'));
    return;
  }
  const scale = scaleOf([...all.map((p) => p.x), ...(x.time ? [0] : [])], x.labels, x.log);
  const most = Math.max(...(points.length ? points : all).flatMap((p) => [p.y, p.high ?? 0, ...(p.dots ?? [])]), 0);
  const reach = most > 0 ? most * 1.04 : 1;
  const px = (v) => left + scale.at(v) * (width - left - right), py = (v) => height - bottom - (v / reach) * (height - top - bottom);
  const hours = y.time && reach >= 3600, ticks = (hours ? timeTicks : ticksOf)(0, reach, height / 60);
  for (const value of ticks.values) {
    picture.append(svg('line', { class: 'grid', x1: left, x2: width - right, y1: py(value), y2: py(value) }));
    picture.append(svg('text', { x: left - 8, y: py(value) + 4, 'text-anchor': 'end' }, hours ? clock(value, ticks.step) : number(value, 6)));
  }
  picture.append(svg('line', { class: 'axis', x1: left, x2: width - right, y1: py(0), y2: py(0) }));
  let last = -Infinity;
  const round = x.time ? timeTicks(0, Math.max(...all.map((p) => p.x)), width / 130) : null;
  for (const value of round ? round.values : []) picture.append(svg('text', { x: px(value), y: height - bottom + 17, 'text-anchor': 'middle' }, clock(value, round.step)));
  for (const value of round ? [] : [...new Set(all.map((p) => p.x))].sort((a, b) => a - b)) {
    const text = x.labels ? shorten(x.labels[value], 18) : number(value, 6), at = px(value);
    if (at - last < text.length * 4 + 18) continue;
    picture.append(svg('text', { x: at, y: height - bottom + 17, 'text-anchor': 'middle' }, text));
    last = at + text.length * 3;
  }
  picture.append(svg('text', { x: (left + width - right) / 2, y: height - 5, 'text-anchor': 'middle' }, shorten(x.label, 60) + (scale.log ? ' (logarithmic)' : '')));
  if (!panel.y) picture.append(svg('text', { x: 8, y: 12 }, y.time && !hours ? `${y.label}, s` : y.label));  // above the topmost tick label; with panel.y the panel's title says it
  for (const one of series) {
    const place = one.place ?? Math.max(names.indexOf(one.name), 0), ink = colour(place), at = one.points;
    if (plain) {
      picture.append(svg('polyline', { points: at.map((p) => `${px(p.x)},${py(p.y)}`).join(' '), fill: 'none', stroke: ink, 'stroke-width': 1.4, 'stroke-dasharray': dashOf(place), opacity: 0.85 }));
      for (const p of at) picture.append(tipped(svg('circle', { cx: px(p.x), cy: py(p.y), r: 7, fill: 'transparent' }), `${one.name}\nafter ${seconds(p.x)}: ${number(p.y)}\n${panel.y || y.label}`));
      continue;
    }
    const ring = [...at.map((p) => `${px(p.x)},${py(p.high)}`), ...at.map((p) => `${px(p.x)},${py(Math.max(p.low, 0))}`).reverse()];
    if (at.some((p) => p.high > p.low) && at.length > 1) picture.append(svg('polygon', { points: ring.join(' '), fill: ink, opacity: 0.16 }));
    if (!x.labels) picture.append(svg('polyline', { points: at.map((p) => `${px(p.x)},${py(p.y)}`).join(' '), fill: 'none', stroke: ink, 'stroke-width': 2, 'stroke-dasharray': dashOf(place) }));
    for (const p of at) {
      for (const dot of p.dots) picture.append(svg('circle', { cx: px(p.x), cy: py(dot), r: 2, fill: ink, opacity: 0.55 }));
      if (p.high > p.low) picture.append(svg('line', { x1: px(p.x), x2: px(p.x), y1: py(p.high), y2: py(Math.max(p.low, 0)), stroke: ink, 'stroke-width': 1.5 }));
      const spot = svg('g', {}, svg('circle', { cx: px(p.x), cy: py(p.y), r: 13, fill: 'transparent' }), marker(place, px(p.x), py(p.y), 4.2, ink));
      picture.append(tipped(spot, p.tip));
    }
  }
}

// Names of lines are buttons that hide and show them.
function toggles(names, places, hidden, change) {
  const box = legend(names, places);
  [...box.children].forEach((label, n) => {
    const name = names[n];
    const act = el('button', { type: 'button', class: 'toggle', 'aria-pressed': String(!hidden.has(name)), title: `${name}: show or hide`, onclick: () => {
      if (hidden.has(name)) hidden.delete(name); else hidden.add(name);
      change();
    } });
    act.append(...label.childNodes);
    label.replaceChildren(act);
  });
  return box;
}

charts.lines = (figure, data) => {
  const plot = figure.querySelector('.plot'), hidden = new Set();
  const names = [...new Set(data.panels.flatMap((panel) => panel.series.map((one) => one.name)))];
  const places = names.map((name) => (SETUPS.includes(name) ? placeOf(name) : names.indexOf(name)));
  const order = []; places.forEach((place, n) => { order[place] = names[n]; });
  function draw() {
    const box = el('div', { class: data.panels.length > 1 ? 'multiples' : '' });
    plot.replaceChildren(toggles(names, places, hidden, draw), box);
    for (const panel of data.panels) {
      const cell = el('div'), inner = el('div');
      if (panel.title) cell.append(el('h4', {}, panel.title));
      cell.append(inner);
      box.append(cell);
      drawLines(inner, panel, data.x, 'time' in panel ? { ...data.y, time: panel.time } : data.y, order, hidden, data.plain);
    }
  }
  return draw;
};
