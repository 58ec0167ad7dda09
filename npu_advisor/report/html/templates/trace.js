// The timeline: lanes of marks on a canvas. Times are in ns from the start of the recording.
unpacked(one('#timelines').textContent).then(trace, function () { 
  all('.stage, .details, #v-trace .tools, [data-window]').forEach(function (each) { each.hidden = true; });
  one('#too-old').hidden = false;
});

// From base64 and deflate to data; fails in browsers of before 2023.
function unpacked(text) {
  try {
    var bytes = Uint8Array.from(atob(text), function (char) { return char.charCodeAt(0); });
    var stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
    return new Response(stream).json();
  } catch (error) { return Promise.reject(error); }
}

function trace(data) {
  var canvas = one('#lanes'), mini = one('#mini'), ranks = data.ranks;
  var words = {
    line: ['your line', '源码行'], critical: ['critical path', '关键路径'], module: ['modules, calls', '模块与调用'], main: ['main thread', '主线程'],
    autograd: ['autograd', '反向线程'], thread: ['thread', '线程'], dequeue: ['Dequeue', 'Dequeue'],
    cann: ['sync, compile', '同步、编译'], gc: ['Python GC', 'Python GC'], kernel: ['kernels', 'kernel'],
    copy: ['copies', '拷贝'], comm: ['collectives', '通信算子'], exposed: ['exposed comm.', '未掩盖通信'],
    idle: ['device idle', '设备空闲'], whole: ['whole recording', '整个采集'], step: ['step', '步'],
    stream: ['stream', '流'], name: ['name', '名称'], start: ['start', '起点'], duration: ['duration', '时长'],
    holds: ['events merged', '合并事件数'], source: ['source line', '源码行'], op: ['launched by', '下发算子'],
    delay: ['launch to start', '下发到执行'], transfer: ['transfer', '传输'], late: ['waits for late ranks', '等待迟到的卡'],
    peer: ['waits for rank ', '等待卡 '], overview: ['overview', '总览'], lane: ['lane', '泳道'], marked: ['marked', '标记']
  };
  function word(key) { return words[key] ? words[key][root.lang === 'zh' ? 1 : 0] : key; }
  var heights = { line: 20, kernel: 24, idle: 20, exposed: 20, comm: 20 };
  var hint = one('#details').firstElementChild, now = null, from = 0, to = 1, marked = null, chosen = null, hits = [];

  function decode(rank) {
    if (rank.ready) { return rank; }
    rank.lanes.forEach(function (lane) {
      var at = 0;
      lane.start = lane.s.map(function (step) { at += step; return at; });
      lane.rows = lane.r ? Math.max.apply(null, lane.r) + 1 : 1;
      lane.height = heights[lane.kind] || 15;
    });
    rank.ready = true;
    return rank;
  }
  function show(index) {
    now = decode(ranks[index]);
    one('#rank').value = String(index);
    marked = chosen = null;
    one('#details').replaceChildren(hint);
    fillZoom();
    var merged = now.lanes.reduce(function (sum, lane) { return sum + (lane.events - lane.start.length); }, 0);
    one('#merged').textContent = merged ? (root.lang === 'zh' ?
      now.events.toLocaleString('en') + ' 个事件，其中 ' + merged.toLocaleString('en') + ' 个并入相邻标记' :
      now.events.toLocaleString('en') + ' events; ' + merged.toLocaleString('en') + ' of them merged with a neighbour') : '';
    var middle = medianStep();
    if (middle < 0) { goTo('all'); } else { goTo('s' + middle); one('#zoom').value = 's' + middle; }
  }
  // Of several steps the one of median length stands for all.
  function medianStep() {
    var order = now.steps.map(function (step, index) { return [step[2], index]; }).sort(function (a, b) { return a[0] - b[0]; });
    return order.length > 1 ? order[Math.floor(order.length / 2)][1] : -1;
  }
  function fillZoom() {
    var list = one('#zoom'), options = [['all', word('whole')]];
    now.steps.slice(0, 100).forEach(function (step, index) {
      if (now.steps.length > 1) { options.push(['s' + index, word('step') + ' ' + (step[0] === null ? index : step[0])]); }
    });
    Object.keys(now.windows).forEach(function (id) {
      var found = data.findings[id];
      if (found) { options.push(['f' + id, '▸ ' + found[root.lang === 'zh' ? 'zh' : 'en']]); }
    });
    list.textContent = '';
    options.forEach(function (pair) { list.add(new Option(pair[1], pair[0])); });
  }
  function goTo(value) {
    marked = null;
    if (value === 'all') { return view(0, now.span); }
    if (value[0] === 's') {
      var step = now.steps[+value.slice(1)];
      return view(step[1], step[1] + step[2]);
    }
    marked = value.slice(1);
    var piece = now.windows[marked][0], room = Math.max((piece[1] - piece[0]) * 0.6, 20000);
    one('#zoom').value = value;
    view(piece[0] - room, piece[1] + room);
  }

  // --- figures ---
  function digits(value) {
    var size = Math.abs(value);
    return value === 0 ? '0' : value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
  }
  function time(ns) { return Math.abs(ns) >= 999500 ? digits(ns / 1e6) + ' ms' : digits(ns / 1000) + ' us'; }
  function nameOf(lane, i) {
    var text = lane.n[i] < 0 ? '' : now.names[lane.n[i]];
    if (lane.kind === 'exposed') { return words[text] ? word(text) : word('peer') + text; }
    var owner = data.words[lane.kind] && data.words[lane.kind][text];
    if (owner) { return owner[root.lang === 'zh' ? 1 : 0]; }
    if (lane.kind === 'line' || lane.kind === 'module') { return brief(text); }
    return text;
  }
  function brief(text) {
    var found = /^(.*?)([^\/\\]+)\((\d+)\)(?:: (.*))?$/.exec(text);
    return found ? found[2] + ':' + found[3] + (found[4] ? ' ' + found[4] : '') : text;
  }
  function laneName(lane, narrow) {
    var streams = now.lanes.filter(function (each) { return each.kind === 'kernel'; }).length;
    var threads = lane.kind === 'autograd' || lane.kind === 'thread' || lane.kind === 'main';
    if (lane.kind === 'kernel' && streams > 1 && lane.label) { return narrow ? word('stream') + ' ' + lane.label : word('kernel') + ', ' + word('stream') + ' ' + lane.label; }
    return threads && lane.kind === 'thread' ? lane.label || word('thread') : word(lane.kind);
  }
  var colours = {};
  function colour(name) {
    if (!colours[name]) { colours[name] = getComputedStyle(root).getPropertyValue('--' + name).trim(); }
    return colours[name];
  }
  var families = [[/matmul|conv|gemm|attention|bmm/i, 'matrix'], [/transdata|transpose|tensormove|cast|copy|slice|concat|pad/i, 'layout'], [/memset|zeros|fill|ones/i, 'fill']];
  function paint(lane, i) {
    var text = lane.n[i] < 0 ? '' : now.names[lane.n[i]];
    switch (lane.kind) {
      case 'line': return 'accent';
      case 'kernel':
        for (var f = 0; f < families.length; f += 1) { if (families[f][0].test(text)) { return families[f][1]; } }
        return 'vector';
      case 'critical': return { host: 'matrix', input: 'data', copy: 'layout', waiting_for_rank: 'waiting', stream_gap: 'other', anchor: 'after_last' }[text] || text;
      case 'idle': return text;
      case 'exposed': return text === 'transfer' ? 'communication' : text === 'late' ? 'waiting-other' : 'waiting';
      case 'comm': return 'communication';
      case 'cann': return /compile/i.test(text) ? 'compile' : /malloc|free/i.test(text) ? 'alloc' : 'sync';
      case 'gc': return 'gc';
      case 'dequeue': return 'data';
      case 'copy': return 'layout';
      case 'main': case 'autograd': case 'thread': return 'matrix';
      default: return 'other';
    }
  }

  // --- drawing ---
  function prepare(target, height) {
    var width = target.parentNode.clientWidth, ratio = window.devicePixelRatio || 1;
    if (!width) { return null; }
    target.width = Math.round(width * ratio);
    target.height = Math.round(height * ratio);
    target.style.height = height + 'px';
    var pen = target.getContext('2d');
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colour('page');
    pen.fillRect(0, 0, width, height);
    pen.textBaseline = 'middle';
    return { pen: pen, width: width };
  }
  function gutter() { return canvas.parentNode.clientWidth < 620 ? 88 : 140; }
  function drawAll(forPrint) {
    colours = {};
    if (!now || (!forPrint && !one('#v-trace').classList.contains('on'))) { return; }
    draw();
    drawMini();
    one('#range').textContent = time(from) + ' – ' + time(to) + '  (' + time(to - from) + ')';
  }
  function draw() {
    var gap = 5, height = 28;
    now.lanes.forEach(function (lane) { height += lane.rows * (lane.height + 1) + 2 * gap; });
    var sheet = prepare(canvas, height);
    if (!sheet) { return; }
    var pen = sheet.pen, left = gutter(), width = sheet.width - left, scale = width / (to - from);
    drawRuler(pen, left, width, height, scale);
    hits = [];
    var y = 28;
    now.lanes.forEach(function (lane, index) {
      var tall = lane.rows * (lane.height + 1) + 2 * gap;
      if (index % 2 === 0) { pen.globalAlpha = 0.6; pen.fillStyle = colour('panel'); pen.fillRect(left, y, width, tall); pen.globalAlpha = 1; }
      pen.save();
      pen.beginPath();
      pen.rect(left, y, width, tall);
      pen.clip();
      drawLane(pen, lane, y + gap, left, width, scale);
      pen.restore();
      pen.fillStyle = colour('text');
      pen.font = '12.5px system-ui, "Noto Sans CJK SC", sans-serif';
      pen.textAlign = 'left';
      pen.fillText(fitted(pen, laneName(lane, left < 100), left - 14), 8, y + tall / 2);
      pen.strokeStyle = colour('line');
      stroke(pen, 0, y + tall - 0.5, sheet.width, y + tall - 0.5);
      y += tall;
    });
    drawWindows(pen, left, width, height, scale);
    drawChosen(pen, left, width, height, scale);
    pen.strokeStyle = colour('line');
    stroke(pen, left - 0.5, 0, left - 0.5, height);
  }
  function stroke(pen, x0, y0, x1, y1) { pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke(); }
  function fitted(pen, text, room) {
    if (pen.measureText(text).width <= room) { return text; }
    while (text.length > 1 && pen.measureText(text + '…').width > room) { text = text.slice(0, -1); }
    return text.length > 1 ? text + '…' : '';
  }
  function drawRuler(pen, left, width, height, scale) {
    var raw = (to - from) / Math.max(2, width / 110), step = Math.pow(10, Math.floor(Math.log10(raw)));
    step *= raw / step > 5 ? 10 : raw / step > 2 ? 5 : raw / step > 1 ? 2 : 1;
    pen.font = '12px system-ui, sans-serif';
    pen.textAlign = 'center';
    for (var at = Math.ceil(from / step) * step; at <= to; at += step) {
      var x = Math.round(left + (at - from) * scale) + 0.5;
      pen.strokeStyle = colour('line');
      stroke(pen, x, 24, x, height);
      pen.fillStyle = colour('muted');
      var label = step >= 1e5 ? (at / 1e6).toFixed(step >= 1e6 ? 0 : 1) + ' ms' : (at / 1e3).toFixed(step >= 1e3 ? 0 : 2) + ' us';
      if (x > left + 24 && x < left + width - 24) { pen.fillText(label, x, 13); }
    }
    pen.strokeStyle = colour('accent');
    now.steps.forEach(function (one_) { var edge = left + (one_[1] - from) * scale; if (edge > left) { stroke(pen, edge, 20, edge, 28); } });
  }
  function drawLane(pen, lane, top, left, width, scale) {
    var lastEnd = -1, lastRow = -1, lastColour = '';
    for (var i = 0; i < lane.start.length; i += 1) {
      var begin = lane.start[i], end = begin + lane.d[i];
      if (end < from || begin > to) { continue; }
      var row = lane.r ? lane.r[i] : 0, fill = paint(lane, i);
      var x0 = left + (begin - from) * scale, size = Math.max((end - begin) * scale, 1);
      // What would fall on the pixel that is painted already is not drawn again.
      if (x0 + size <= lastEnd + 0.25 && row === lastRow && fill === lastColour) { continue; }
      lastEnd = x0 + size; lastRow = row; lastColour = fill;
      var y = top + row * (lane.height + 1);
      pen.fillStyle = colour(fill);
      pen.globalAlpha = lane.r ? Math.max(0.5, 1 - row * 0.13) : lane.c && lane.c[i] > 1 ? 0.75 : 1;
      var x = Math.max(x0, left - 2), seen = Math.min(x0 + size, left + width + 2) - x;
      pen.fillRect(x, y, Math.max(seen - (size > 3 ? 0.6 : 0), 0.8), lane.height);
      pen.globalAlpha = 1;
      if (lane.kind === 'exposed' && fill === 'waiting') { hatch(pen, x, y, seen, lane.height); }
      hits.push([x, y, seen, lane.height, lane, i]);
      if (seen > 30) { label(pen, lane, i, x, y, seen); }
    }
  }
  function hatch(pen, x, y, width, height) {
    pen.save();
    pen.beginPath();
    pen.rect(x, y, width, height);
    pen.clip();
    pen.strokeStyle = 'rgba(255,255,255,.3)';
    pen.lineWidth = 2;
    for (var at = x - height; at < x + width; at += 9) { stroke(pen, at, y + height, at + height, y); }
    pen.restore();
  }
  function label(pen, lane, i, x, y, width) {
    var text = nameOf(lane, i);
    if (!text) { return; }
    if (width > 110) { text += '  ' + time(lane.d[i]); }
    pen.font = (lane.height > 16 ? '12px' : '11px') + ' system-ui, "Noto Sans CJK SC", sans-serif';
    pen.textAlign = 'left';
    pen.fillStyle = colour('on-bar');
    var shown = fitted(pen, text, width - 8);
    if (shown) { pen.fillText(shown, x + 4, y + lane.height / 2 + 0.5); }
  }
  function drawWindows(pen, left, width, height, scale) {
    if (!marked || !now.windows[marked]) { return; }
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, width, height);
    pen.clip();
    now.windows[marked].forEach(function (piece) {
      var x = left + (piece[0] - from) * scale, size = Math.max((piece[1] - piece[0]) * scale, 2);
      pen.globalAlpha = 0.13;
      pen.fillStyle = colour('high-bar');
      pen.fillRect(x, 20, size, height - 20);
      pen.globalAlpha = 1;
      pen.fillRect(x, 20, size, 4);
    });
    pen.restore();
  }
  function drawChosen(pen, left, width, height, scale) {
    if (!chosen) { return; }
    hits.forEach(function (hit) {
      if (hit[4] !== chosen.lane || hit[5] !== chosen.index) { return; }
      pen.strokeStyle = colour('text');
      pen.lineWidth = 2;
      pen.strokeRect(hit[0] - 1, hit[1] - 1, Math.max(hit[2], 3) + 2, hit[3] + 2);
      pen.lineWidth = 1;
      var delay = chosen.lane.l && chosen.lane.l[chosen.index];
      if (delay === null || delay === undefined) { return; }
      var launched = left + (chosen.lane.start[chosen.index] - delay - from) * scale;
      pen.save();
      pen.beginPath();
      pen.rect(left, 0, width, height);
      pen.clip();
      pen.setLineDash([4, 3]);
      pen.strokeStyle = colour('text');
      stroke(pen, launched, 28, launched, hit[1]);
      stroke(pen, launched, hit[1], hit[0], hit[1]);
      pen.restore();
    });
  }
  function drawMini() {
    var sheet = prepare(mini, 40);
    if (!sheet) { return; }
    var pen = sheet.pen, left = gutter(), scale = (sheet.width - left) / now.span;
    now.lanes.forEach(function (lane) {
      var y = { kernel: 5, exposed: 24, idle: 24 }[lane.kind];
      if (y === undefined) { return; }
      for (var i = 0; i < lane.start.length; i += 1) {
        pen.fillStyle = colour(lane.kind === 'kernel' ? 'compute' : paint(lane, i));
        pen.fillRect(left + lane.start[i] * scale, y, Math.max(lane.d[i] * scale, 0.6), 12);
      }
    });
    pen.font = '12.5px system-ui, "Noto Sans CJK SC", sans-serif';
    pen.fillStyle = colour('muted');
    pen.textAlign = 'left';
    pen.fillText(word('overview'), 8, 20);
    pen.strokeStyle = colour('accent');
    pen.lineWidth = 1.5;
    pen.strokeRect(left + from * scale + 0.75, 1.5, Math.max((to - from) * scale - 1.5, 3), 37);
  }

  // --- moving about ---
  function view(low, high) {
    var least = 2000, edge = now.span * 0.01;
    if (high - low < least) { var middle = (low + high) / 2; low = middle - least / 2; high = middle + least / 2; }
    if (high - low > now.span + 2 * edge) { low = -edge; high = now.span + edge; }
    if (low < -edge) { high += -edge - low; low = -edge; }
    if (high > now.span + edge) { low -= high - now.span - edge; high = now.span + edge; }
    from = Math.max(low, -edge);
    to = high;
    canvas.dataset.from = String(from);
    canvas.dataset.to = String(to);
    drawAll();
  }
  function zoom(factor, about) {
    var centre = about === undefined ? (from + to) / 2 : about;
    view(centre - (centre - from) * factor, centre + (to - centre) * factor);
  }
  function timeAt(event, target) {
    var box = target.getBoundingClientRect(), left = gutter();
    return (event.clientX - box.left - left) / (box.width - left);
  }
  canvas.addEventListener('wheel', function (event) {
    if (!event.ctrlKey && !event.metaKey) { return; }
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, from + timeAt(event, canvas) * (to - from));
  }, { passive: false });
  var drag = null;
  canvas.addEventListener('pointerdown', function (event) {
    drag = { x: event.clientX, from: from, to: to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', function (event) {
    if (!drag) { return; }
    if (Math.abs(event.clientX - drag.x) > 3) { drag.moved = true; }
    if (!drag.moved) { return; }
    var by = (event.clientX - drag.x) / (canvas.clientWidth - gutter()) * (drag.to - drag.from);
    view(drag.from - by, drag.to - by);
  });
  canvas.addEventListener('pointerup', function (event) {
    var moved = drag && drag.moved;
    drag = null;
    if (!moved) { pickAt(event); }
  });
  function pickAt(event) {
    var box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top, best = null;
    hits.forEach(function (hit) {
      var inside = x >= hit[0] - 2 && x <= hit[0] + hit[2] + 2 && y >= hit[1] && y <= hit[1] + hit[3];
      if (inside && (!best || hit[2] < best[2])) { best = hit; }
    });
    choose(best ? { lane: best[4], index: best[5] } : null);
  }
  function choose(mark) {
    chosen = mark;
    var box = one('#details'), list = document.createElement('dl');
    box.replaceChildren(mark ? list : hint);
    if (mark) {
      facts(mark.lane, mark.index).forEach(function (pair) {
        var group = document.createElement('div'), term = document.createElement('dt'), text = document.createElement('dd');
        term.textContent = pair[0];
        text.textContent = pair[1];
        group.append(term, text);
        list.append(group);
      });
    }
    drawAll();
  }
  function facts(lane, i) {
    var out = [[word('lane'), laneName(lane)], [word('name'), nameOf(lane, i)], [word('start'), time(lane.start[i])], [word('duration'), time(lane.d[i])]];
    if (lane.c && lane.c[i] > 1) { out.push([word('holds'), String(lane.c[i])]); }
    if (lane.o && lane.o[i] >= 0) { out.push([word('op'), now.names[lane.o[i]]]); }
    if (lane.l && lane.l[i] !== null && lane.l[i] !== undefined) { out.push([word('delay'), time(lane.l[i])]); }
    if (lane.p && lane.p[i] >= 0) { out.push([word('source'), now.names[lane.p[i]]]); }
    return out;
  }
  function nextKernel(by) {
    var lanes = now.lanes.filter(function (lane) { return lane.kind === 'kernel'; });
    if (!lanes.length) { return; }
    var same = chosen && chosen.lane.kind === 'kernel', lane = same ? chosen.lane : lanes[0];
    var index = same ? Math.min(Math.max(chosen.index + by, 0), lane.start.length - 1) : 0;
    var at = lane.start[index];
    if (at < from || at > to) { view(at - (to - from) / 2, at + (to - from) / 2); }
    choose({ lane: lane, index: index });
  }
  canvas.addEventListener('keydown', function (event) {
    var key = event.key.toLowerCase(), span = to - from;
    if (event.ctrlKey || event.metaKey || event.altKey) { return; }
    if (key === 'w' || key === '+' || key === '=') { zoom(0.7); }
    else if (key === 's' || key === '-') { zoom(1.4); }
    else if (key === 'a' || key === 'arrowleft') { view(from - span * 0.15, to - span * 0.15); }
    else if (key === 'd' || key === 'arrowright') { view(from + span * 0.15, to + span * 0.15); }
    else if (key === '0') { goTo('all'); }
    else if (key === 'n') { nextKernel(1); }
    else if (key === 'p') { nextKernel(-1); }
    else if (key === 'escape') { marked = null; choose(null); }
    else { return; }
    event.preventDefault();
  });
  mini.addEventListener('pointerdown', function (event) {
    var middle = timeAt(event, mini) * now.span, half = (to - from) / 2;
    view(middle - half, middle + half);
  });
  all('[data-zoom]').forEach(function (button) {
    button.addEventListener('click', function () { zoom(button.dataset.zoom === 'in' ? 0.6 : 1.6); });
  });
  one('#zoom').addEventListener('change', function (event) { goTo(event.target.value); });
  one('#rank').addEventListener('change', function (event) { show(+event.target.value); });
  all('[data-window]').forEach(function (button) {
    button.addEventListener('click', function () {
      var id = button.dataset.window;
      if (!now.windows[id]) { show(ranks.findIndex(function (rank) { return rank.windows[id]; })); }
      openTab(one('#t-trace'));
      goTo('f' + id);
      one('#views').scrollIntoView();
    });
  });
  addEventListener('resize', function () { drawAll(); });
  redraw = function (forPrint) { fillZoomKeeping(); drawAll(forPrint); };
  function fillZoomKeeping() {
    var value = one('#zoom').value;
    fillZoom();
    one('#zoom').value = value;
  }
  show(0);
  performance.mark('timeline');
  root.dataset.ready = '1';
}
