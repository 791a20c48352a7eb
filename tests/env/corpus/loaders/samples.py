"""Small real documents, made here."""

from __future__ import annotations

HTML = """<!doctype html><html><head><meta charset="utf-8"><title>Lyon: silk | Some site</title>
<meta property="og:title" content="Lyon: silk"><meta property="article:published_time" content="2021-05-06">
</head><body><nav><a href="/">Home</a><a href="/shop">Shop</a></nav><header>Accept all cookies</header>
<main><article><h1>Lyon: silk</h1>
<p>Silk weaving made Lyon rich in the sixteenth century, when Italian merchants came.</p>
<h2>Revolts</h2><p>The <b>weavers</b> revolted in <a href="/1831">1831</a> and again in 1834.</p>
<ul><li>first item of the list</li><li>second item</li></ul>
<h3>Songs &amp; such</h3><p>Les canuts is a song about them, written by Aristide Bruant.</p>
</article></main><aside>Related: buy silk now</aside><footer>Copyright imprint</footer></body></html>"""


def pdf(*pages: str, title: str = "A report", date: str = "D:20200102030405Z") -> bytes:
    """A PDF with one line of text per line of each page, written by hand."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for page in pages:
        lines = "".join(f"({line}) Tj 0 -14 Td\n" for line in page.split("\n"))
        stream = f"BT /F1 12 Tf 72 720 Td\n{lines}ET".encode("latin-1")
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream))
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    objects.append(f"<< /Title ({title}) /CreationDate ({date}) >>".encode())
    data = b"%PDF-1.4\n"
    places = []
    for number, content in enumerate(objects, start=1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\n" % (len(objects) + 1, len(objects))
    return data + b"xref\n0 %d\n0000000000 65535 f \n%b%bstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        table,
        trailer,
        len(data),
    )
