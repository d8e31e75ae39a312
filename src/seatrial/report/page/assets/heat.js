// Heat maps over two parameters: a panel for each set-up, one scale of colours for all of them, a figure at a time.

function drawHeat(plot, panel, data, figure, low, high) {
  const { x, y } = data, width = plot.clientWidth, right = 12, top = 22, bottom = 40;
  const labels = y.values.map((value) => number(value, 6));
  const left = clamp(Math.max(...labels.map((text) => text.length)) * 7.2 + 16, 36, width * 0.3);
  const step = (width - left - right) / x.values.length, tall = clamp(300 / y.values.length, 16, 46), height = top + y.values.length * tall + bottom;
  const picture = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `${data.figures[figure].name} over ${x.label} and ${y.label}, ${panel.name}` });
  plot.replaceChildren(picture);
  picture.append(svg('text', { x: 2, y: 12 }, shorten(y.label, Math.max(Math.floor(width / 7), 8))));
  const row = (value) => top + (y.values.length - 1 - y.values.indexOf(value)) * tall;
  for (const cell of panel.cells) {
    const value = cell.values[figure], at = left + x.values.indexOf(cell.x) * step, share = value === null ? 0 : high > low ? (value - low) / (high - low) : 0.5;
    const box = svg('g', { class: 'cell' }, svg('rect', { x: at + 0.5, y: row(cell.y) + 0.5, width: Math.max(step - 1, 1), height: Math.max(tall - 1, 1), rx: 2, class: value === null ? 'empty' : 'full', 'fill-opacity': value === null ? 1 : 0.06 + 0.94 * share }));
    const text = value === null ? '–' : data.figures[figure].ratio ? `${number(value * 100, 3)} %` : number(value, Math.abs(value) >= 1000 ? 4 : 3);
    if (text.length * 7 < step - 4) box.append(svg('text', { x: at + step / 2, y: row(cell.y) + tall / 2 + 4, 'text-anchor': 'middle', class: share > 0.55 ? 'on' : 'off' }, text));
    picture.append(tipped(box, cell.tips[figure]));
  }
  labels.forEach((text, n) => picture.append(svg('text', { x: left - 8, y: row(y.values[n]) + tall / 2 + 4, 'text-anchor': 'end' }, text)));
  let last = -Infinity;
  x.values.forEach((value, n) => {
    const text = number(value, 6), at = left + (n + 0.5) * step;
    if (at - text.length * 3.6 < last + 8) return;
    picture.append(svg('text', { x: at, y: height - bottom + 17, 'text-anchor': 'middle' }, text));
    last = at + text.length * 3.6;
  });
  picture.append(svg('text', { x: (left + width - right) / 2, y: height - 5, 'text-anchor': 'middle' }, shorten(x.label, 60)));
}

charts.heat = (figure, data) => {
  const plot = figure.querySelector('.plot'), controls = figure.querySelector('.controls');
  let chosen = 0;
  if (data.figures.length > 1) controls.append(choice(data.figures.map((one) => one.name), 0, (n) => { chosen = n; draw(); }, 'figure'));
  function draw() {
    const box = el('div', { class: data.setups.length > 1 ? 'multiples wide' : '' });
    const values = data.setups.flatMap((one) => one.cells.map((cell) => cell.values[chosen])).filter((value) => value !== null);
    const low = Math.min(...values), high = Math.max(...values);
    plot.replaceChildren(box);
    const inner = data.setups.map((panel) => {
      const cell = el('div'), plain = el('div');
      if (data.setups.length > 1) cell.append(el('h4', {}, shorten(panel.name, 60)));
      cell.append(plain);
      box.append(cell);
      return plain;
    });
    data.setups.forEach((panel, n) => drawHeat(inner[n], panel, data, chosen, low, high));  // once all are there: a panel alone would be as wide as the page
  }
  return draw;
};
