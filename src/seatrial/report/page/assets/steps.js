// A row for each step: left every workload as a dot over the time of its submission, right the distribution.

charts.steps = async (figure, data) => {
  const plot = figure.querySelector('.plot'), controls = figure.querySelector('.controls'), hidden = new Set();
  const columns = await unpack(data.packed);
  let chosen = data.chosen;
  if (data.combinations.length > 1) controls.append(select('Params', data.combinations, chosen, (n) => { chosen = n; draw(); }));

  function axis(pen, box, high, low, factor, unit) {
    const ticks = ticksOf(low * factor, high * factor, 3);
    pen.textAlign = 'right'; pen.textBaseline = 'middle'; pen.fillStyle = css('--quiet'); pen.strokeStyle = css('--faint');
    for (const value of ticks.values) {
      const at = box.y(value / factor);
      pen.beginPath(); pen.moveTo(box.left, at); pen.lineTo(box.end, at); pen.stroke();
      pen.fillText(number(value, 6), box.left - 7, at);
    }
    pen.textAlign = 'left'; pen.fillText(unit, 2, box.top - 8);
  }

  function drawRow(row, holder) {
    const width = holder.clientWidth, narrow = width < 560, height = narrow ? 118 : 130;
    const { canvas, pen } = canvasOf(holder, width, height);
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', `${row.stage}: ${row.of.map((one) => `${one.setup} median ${seconds(one.median)}`).join(', ')}`);
    pen.font = `12px ${css('--sans')}`;
    const of = row.of.map((one, n) => ({ ...one, nth: n, place: placeOf(one.setup) })).filter((one) => !hidden.has(one.setup));
    const { low, high } = row, bins = row.of[0].counts.length;
    const edge = (n) => low + ((high - low) * n) / bins;
    const reach = Math.max(Math.abs(high), Math.abs(low));
    const [factor, unit] = reach < 1 ? [1000, 'ms'] : reach < 7200 ? [1, 's'] : [1 / 3600, 'h'];
    const left = 54, foot = 22, split = Math.round(left + (width - left) * (narrow ? 0.62 : 0.7)), top = 18;
    const y = (v) => height - foot - ((v - low) / (high - low)) * (height - foot - top);
    axis(pen, { left, end: width, top, y }, high, low, factor, unit);
    const until = Math.max(...row.of.map((one, n) => columns[`${row.key}.${n}.at`].reduce((a, b) => Math.max(a, b), 0)), 1) * row.unit_at;
    const x = (v) => left + 6 + (v / until) * (split - left - 24);
    const ticks = timeTicks(0, until, narrow ? 2 : 5);
    pen.textBaseline = 'alphabetic';
    ticks.values.forEach((value) => { pen.textAlign = value ? 'center' : 'left'; pen.fillText(clock(value, ticks.step), x(value), height - 6); });
    const dots = [];
    for (const one of of) {
      const at = columns[`${row.key}.${one.nth}.at`], took = columns[`${row.key}.${one.nth}.took`];
      const size = at.length > 1500 ? 1.1 : at.length > 200 ? 1.8 : 2.6;
      pen.fillStyle = colour(one.place);
      pen.globalAlpha = at.length > 400 ? 0.5 : 0.75;
      for (let n = 0; n < at.length; n++) {
        const dx = x(at[n] * row.unit_at), dy = y(took[n] * row.unit);
        if (size < 1.5) pen.fillRect(dx - size, dy - size, 2 * size, 2 * size);
        else { pen.beginPath(); pen.arc(dx, dy, size, 0, 7); pen.fill(); }
      }
      dots.push({ one, at, took });
    }
    pen.globalAlpha = 1;
    const lanes = Math.max(of.length, 1), lane = (width - split) / lanes;
    const most = Math.max(...of.flatMap((one) => one.counts), 1);
    of.forEach((one, n) => {
      const from = split + n * lane;
      pen.fillStyle = colour(one.place);
      one.counts.forEach((amount, bin) => {
        if (!amount) return;
        const high = y(edge(bin + 1)), low = y(edge(bin));
        pen.fillRect(from + 4, high + 0.5, Math.max((amount / most) * (lane - 10), 1), Math.max(low - high - 1, 1));
      });
      pen.fillStyle = css('--line');
      pen.fillRect(from + 3, top, 1, height - foot - top);
      pen.fillStyle = css('--quiet');
      if (n === 0) { pen.textAlign = 'left'; pen.fillText(narrow ? `0 – ${most.toLocaleString('en')}` : `0 – ${most.toLocaleString('en')} workloads${of.length > 1 ? ' each' : ''}`, from + 4, height - 6); }
    });
    canvas.onpointerleave = hideTip;
    canvas.onpointermove = (event) => {
      const rect = canvas.getBoundingClientRect(), mx = event.clientX - rect.left, my = event.clientY - rect.top;
      if (mx >= split) {
        const one = of[clamp(Math.floor((mx - split) / lane), 0, of.length - 1)];
        const bin = Array.from({ length: bins }, (_, n) => n).findIndex((n) => my <= y(edge(n)) && my >= y(edge(n + 1)));
        if (one && bin >= 0) showTip(`${one.setup}\n${seconds(edge(bin))} to ${seconds(edge(bin + 1))}: ${plural(one.counts[bin], 'workload')} of ${one.n.toLocaleString('en')}\nmedian ${seconds(one.median)}`, event.clientX, event.clientY);
        else hideTip();
        return;
      }
      let best = 144, found = null;
      for (const { one, at, took } of dots) for (let n = 0; n < at.length; n++) {
        const far = (x(at[n] * row.unit_at) - mx) ** 2 + (y(took[n] * row.unit) - my) ** 2;
        if (far < best) { best = far; found = [one, at[n] * row.unit_at, took[n] * row.unit]; }
      }
      if (found) showTip(`${found[0].setup}\nsubmitted at ${seconds(found[1])}\n${row.stage}: ${seconds(found[2])}`, event.clientX, event.clientY);
      else hideTip();
    };
  }

  function draw() {
    const rows = data.rows[chosen];
    const names = [...new Set(data.rows.flatMap((some) => some.flatMap((row) => row.of.map((one) => one.setup))))];
    plot.replaceChildren(toggles(names, names.map(placeOf), hidden, draw));
    if (!rows.length) plot.append('No trial with these params can be trusted.');
    rows.forEach((row) => {
      const holder = el('div');
      plot.append(el('p', { class: 'step' }, el('b', {}, row.stage), ` ${row.about}`, el('small', {}, row.since ? `  ${row.since}` : '')), holder);
      drawRow(row, holder);
    });
    plot.append(el('p', { class: 'note' }, 'x: time of submission, since the first submission of the trial. y: duration of the stage.'));
  }
  return draw;
};
